// LangGraph with Cofferdam's sandbox as its tools. usage: node langgraph.mjs TASK [ARGUMENT OF cofferdam mcp]...
// npm install @langchain/langgraph @langchain/core @langchain/openai @langchain/mcp-adapters langchain
import { ChatOpenAI } from '@langchain/openai';
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { createAgent } from 'langchain';

const [, , task, ...args] = process.argv;
const client = new MultiServerMCPClient({
  mcpServers: { cofferdam: { transport: 'stdio', command: process.env.COFFERDAM ?? 'cofferdam', args: ['mcp', ...args] } },
});
const model = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-5.1', configuration: { baseURL: process.env.OPENAI_BASE_URL } });
const agent = createAgent({ model, tools: await client.getTools() });
const { messages } = await agent.invoke({ messages: [{ role: 'user', content: task }] });
console.log(messages.at(-1).content);
await client.close();
