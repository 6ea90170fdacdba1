// OpenAI's Agents SDK with Cofferdam's sandbox as its tools. usage: node openai-agents.mjs TASK [ARGUMENT OF cofferdam mcp]...
// npm install @openai/agents
import { Agent, MCPServerStdio, run, setTracingDisabled } from '@openai/agents';

const [, , task, ...args] = process.argv;
setTracingDisabled(true); // traces would go to OpenAI's service
const sandbox = new MCPServerStdio({ name: 'cofferdam', command: process.env.COFFERDAM ?? 'cofferdam', args: ['mcp', ...args] });
await sandbox.connect();
try {
  const agent = new Agent({ name: 'operator', model: process.env.MODEL ?? 'gpt-5.1', mcpServers: [sandbox] });
  const result = await run(agent, task);
  console.log(result.finalOutput);
} finally {
  await sandbox.close();
}
