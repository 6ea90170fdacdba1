// Claude's Agent SDK with Cofferdam's sandbox as the only way to run code: `tools: []` takes Bash, Edit and the others away.
// usage: node claude-agent-sdk.mjs TASK [ARGUMENT OF cofferdam mcp]...
// npm install @anthropic-ai/claude-agent-sdk   (under a licence of Anthropic's own)
import { query } from '@anthropic-ai/claude-agent-sdk';

const [, , task, ...args] = process.argv;
const answers = query({
  prompt: task,
  options: {
    tools: [],
    mcpServers: { cofferdam: { command: process.env.COFFERDAM ?? 'cofferdam', args: ['mcp', ...args] } },
    strictMcpConfig: true,
    allowedTools: ['mcp__cofferdam__run_code', 'mcp__cofferdam__run_command', 'mcp__cofferdam__approval_status'],
    settingSources: [],
  },
});
for await (const m of answers) if (m.type === 'result') console.log(m.result ?? m.subtype);
