// A scripted model server: Anthropic Messages, OpenAI Chat Completions and Responses, Google generateContent, streaming or not.
// No dependencies.
// usage: node fakemodel.mjs PORT SCRIPT.json LOG.jsonl [CERT KEY]   (PORT 0: any; prints "fakemodel on PORT")
//
// SCRIPT: {"steps": [STEP, ...], "errors": [ERROR, ...], "key": "..."}
// STEP:   {"text": "...", "tools": [{"tool": "regex of its name", "input": {...}}], "thinking": "...", "stop": "..."}
//         A value "${REGEX}" of an input is filled in from the conversation: the first group of its last match.
//         Of a conversation whose task has the words of a key of "tasks": {"words": [STEP, ...]} its steps instead.
//         The step is picked by the assistant messages so far, so that a request that is tried again gets the same one.
// "sequence": true: the steps go by answers that were given; "count": true: usage goes by the size of the request;
// "usage": {...} of an Anthropic answer. Who is told that its context is nearly full answers "In short: N".
// "times": FILE: of each answer when its request was there, and when it was written, in milliseconds.
// ERROR:  {"at": N} for request N with one of
//         "status": 529 with "headers", "body"; "sse": "overloaded_error" after a 200; in the middle "cut": true,
//         or "hang": true, which never goes on
// key:    x-api-key, x-goog-api-key or Authorization: Bearer must be it, else 401.
// LOG:    each request with its headers and body, one JSON a line.
import http from 'node:http';
import https from 'node:https';
import fs from 'node:fs';

const [, , port, scriptFile, logFile, certFile, keyFile] = process.argv;
const script = JSON.parse(fs.readFileSync(scriptFile));
let requests = 0;
let ids = 0;
let served = 0;
let summaries = 0;
// Of an answer; with "count" the tokens read are a quarter of the conversation's characters.
const read = (list) => (script.count ? Math.ceil(JSON.stringify(list).length / 4) : 100);
const id = (prefix) => prefix + '_' + String(++ids).padStart(8, '0');

// "${REGEX}" as a value of an input: the first group of its last match in the conversation.
function fill(value, messages) {
  if (typeof value !== 'string' || !/^\$\{.*\}$/s.test(value)) return value;
  const all = [...JSON.stringify(messages).matchAll(new RegExp(value.slice(2, -1), 'g'))];
  return all.length ? all[all.length - 1][1] : 'nothing found';
}

function filled(input, messages) {
  return Object.fromEntries(Object.entries(input).map(([k, v]) => [k, fill(v, messages)]));
}

function stepFor(messages, toolNames, error) {
  if (JSON.stringify(messages[messages.length - 1]).includes('Your context is nearly full')) return { text: 'In short: ' + ++summaries, tools: [] };
  const ours = (m) => m && (m.role === 'assistant' || m.role === 'model' || m.type === 'function_call' || m.type === 'reasoning');
  const said = script.sequence ? served : messages.filter((m, i) => ours(m) && !ours(messages[i - 1])).length;
  if (!error) served++;
  const task = JSON.stringify(messages.find((m) => m.role === 'user') || '');
  const steps = Object.entries(script.tasks || {}).find(([words]) => task.includes(words))?.[1] || script.steps;
  const step = steps[Math.min(said, steps.length - 1)];
  const tools = (step.tools || []).map((t) => {
    const name = toolNames.find((n) => new RegExp(t.tool).test(n));
    return name ? { name, input: filled(t.input, messages) } : null;
  });
  if (tools.includes(null)) return { text: 'no such tool among ' + toolNames.join(' '), tools: [] };
  return { ...step, tools };
}

function sse(res, event, data) {
  if (event) res.write('event: ' + event + '\n');
  res.write('data: ' + (typeof data === 'string' ? data : JSON.stringify(data)) + '\n\n');
}

function pieces(text, size) {
  const out = [];
  for (let i = 0; i < text.length; i += size) out.push(text.slice(i, i + size));
  return out;
}

// An error of the script that comes after the head; true: the answer is over.
function breaks(res, error) {
  if (error?.sse) {
    const type = error.sse;
    sse(res, 'error', { type: 'error', error: { type, message: 'fake ' + type } });
    res.end();
    return true;
  }
  if (error?.hang) return true;
  if (error?.cut) {
    setTimeout(() => res.destroy(), 50);
    return true;
  }
  return false;
}

function anthropic(res, body, error) {
  const step = stepFor(body.messages, (body.tools || []).map((t) => t.name), error);
  const usage = { input_tokens: read(body.messages), output_tokens: 20, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, ...script.usage };
  const content = [];
  if (step.thinking) content.push({ type: 'thinking', thinking: step.thinking, signature: Buffer.from(step.thinking).toString('base64') });
  if (step.text) content.push({ type: 'text', text: step.text });
  for (const t of step.tools) content.push({ type: 'tool_use', id: id('toolu'), name: t.name, input: t.input });
  const stop = step.stop || (step.tools.length ? 'tool_use' : 'end_turn');
  const message = { id: id('msg'), type: 'message', role: 'assistant', model: body.model, stop_sequence: null };
  res.setHeader('request-id', id('req'));
  if (!body.stream) {
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ ...message, content, stop_reason: stop, usage }));
    return;
  }
  res.setHeader('content-type', 'text/event-stream');
  const ev = (type, more) => sse(res, type, { type, ...more });
  ev('message_start', { message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } } });
  ev('ping', {});
  if (breaks(res, error)) return;
  content.forEach((b, index) => {
    const delta = (d) => ev('content_block_delta', { index, delta: d });
    if (b.type === 'thinking') {
      ev('content_block_start', { index, content_block: { type: 'thinking', thinking: '', signature: '' } });
      delta({ type: 'thinking_delta', thinking: b.thinking });
      delta({ type: 'signature_delta', signature: b.signature });
    } else if (b.type === 'text') {
      ev('content_block_start', { index, content_block: { type: 'text', text: '' } });
      for (const text of pieces(b.text, 7)) delta({ type: 'text_delta', text });
    } else {
      ev('content_block_start', { index, content_block: { ...b, input: {} } });
      for (const part of pieces(JSON.stringify(b.input), 20)) delta({ type: 'input_json_delta', partial_json: part });
    }
    ev('content_block_stop', { index });
  });
  ev('message_delta', { delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 20 } });
  ev('message_stop', {});
  res.end();
}

function chat(res, body, error) {
  const step = stepFor(body.messages, (body.tools || []).map((t) => t.function.name), error);
  const base = { id: id('chatcmpl'), created: 1, model: body.model, system_fingerprint: 'fp_fake' };
  const usage = { prompt_tokens: read(body.messages), completion_tokens: 20, total_tokens: 120 };
  const calls = step.tools.map((t) => ({ id: id('call'), type: 'function', function: { name: t.name, arguments: JSON.stringify(t.input) } }));
  const stop = step.stop || (calls.length ? 'tool_calls' : 'stop');
  if (!body.stream) {
    const message = { role: 'assistant', content: step.text || null, refusal: null, ...(calls.length ? { tool_calls: calls } : {}) };
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ ...base, object: 'chat.completion', choices: [{ index: 0, message, logprobs: null, finish_reason: stop }], usage }));
    return;
  }
  res.setHeader('content-type', 'text/event-stream');
  const chunk = (choices, more) => sse(res, null, { ...base, object: 'chat.completion.chunk', choices, ...more });
  const delta = (d, reason = null) => chunk([{ index: 0, delta: d, logprobs: null, finish_reason: reason }]);
  delta({ role: 'assistant', content: step.text ? '' : null });
  if (breaks(res, error)) return;
  for (const content of pieces(step.text || '', 7)) delta({ content });
  calls.forEach((c, index) => {
    delta({ tool_calls: [{ index, id: c.id, type: 'function', function: { name: c.function.name, arguments: '' } }] });
    for (const part of pieces(c.function.arguments, 20)) delta({ tool_calls: [{ index, function: { arguments: part } }] });
  });
  delta({}, stop);
  if (body.stream_options?.include_usage) chunk([], { usage });
  sse(res, null, '[DONE]');
  res.end();
}

function responses(res, body, error) {
  const step = stepFor(body.input, (body.tools || []).map((t) => t.name), error);
  const usage = { input_tokens: read(body.input), output_tokens: 20, total_tokens: 120, input_tokens_details: { cached_tokens: 0 } };
  const response = { id: id('resp'), object: 'response', status: 'in_progress', model: body.model, output: [] };
  const items = [];
  if (step.thinking) items.push({ type: 'reasoning', id: id('rs'), summary: [{ type: 'summary_text', text: step.thinking }], encrypted_content: 'sealed' });
  if (step.text) items.push({ type: 'message', id: id('msg'), role: 'assistant', content: [{ type: 'output_text', text: step.text, annotations: [] }] });
  for (const t of step.tools) items.push({ type: 'function_call', id: id('fc'), call_id: id('call'), name: t.name, arguments: JSON.stringify(t.input) });
  const whole = { ...response, status: 'completed', output: items, usage };
  if (!body.stream) {
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify(whole));
    return;
  }
  const ev = (type, more) => sse(res, type, { type, ...more });
  res.setHeader('content-type', 'text/event-stream');
  ev('response.created', { response });
  if (breaks(res, error)) return;
  items.forEach((item, output_index) => {
    ev('response.output_item.added', { output_index, item: { ...item, ...(item.arguments ? { arguments: '' } : {}), ...(item.content ? { content: [] } : {}) } });
    if (item.content) for (const delta of pieces(item.content[0].text, 7)) ev('response.output_text.delta', { output_index, content_index: 0, delta });
    if (item.arguments) for (const delta of pieces(item.arguments, 20)) ev('response.function_call_arguments.delta', { output_index, delta });
    if (item.arguments) ev('response.function_call_arguments.done', { output_index, arguments: item.arguments });
    ev('response.output_item.done', { output_index, item });
  });
  ev('response.completed', { response: whole });
  res.end();
}

function google(res, body, error, streams) {
  const names = (body.tools || []).flatMap((t) => t.functionDeclarations || []).map((f) => f.name);
  const step = stepFor(body.contents, names, error);
  const parts = step.tools.map((t) => ({ functionCall: { name: t.name, args: t.input } }));
  if (step.text) parts.unshift({ text: step.text });
  const usageMetadata = { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 };
  const answer = { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }], usageMetadata };
  if (!streams) {
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify(answer));
    return;
  }
  res.setHeader('content-type', 'text/event-stream');
  if (breaks(res, error)) return;
  sse(res, null, answer);
  res.end();
}

function serverOf(path) {
  if (path.endsWith('/messages')) return anthropic;
  if (path.endsWith('/chat/completions')) return chat;
  if (path.endsWith('/responses')) return responses;
  if (path.endsWith(':generateContent')) return google;
  if (path.endsWith(':streamGenerateContent')) return (res, body, error) => google(res, body, error, true);
  return null;
}

function isKey(headers) {
  return !script.key || [headers['x-api-key'], headers['x-goog-api-key'], headers.authorization?.replace(/^Bearer /, '')].includes(script.key);
}

function refuse(res, status, type, headers, body) {
  res.statusCode = status;
  for (const [name, value] of Object.entries(headers || {})) res.setHeader(name, value);
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify(body || { type: 'error', error: { type, message: 'fake ' + status }, request_id: 'req_fake' }));
}

function answer(req, res, raw) {
  const arrived = performance.now();
  if (script.times) res.on('finish', () => fs.appendFileSync(script.times, arrived + ' ' + performance.now() + '\n'));
  let body = null;
  try {
    body = JSON.parse(raw);
  } catch {
    // stays null
  }
  fs.appendFileSync(logFile, JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body: body ?? raw.toString() }) + '\n');
  const serve = serverOf(req.url.split('?')[0]);
  if (!serve || req.method !== 'POST') return refuse(res, 404, 'not_found_error');
  const error = (script.errors || []).find((e) => e.at === requests);
  requests++;
  if (error?.status) return refuse(res, error.status, error.status === 529 ? 'overloaded_error' : error.status === 429 ? 'rate_limit_error' : 'api_error', error.headers, error.body);
  if (!isKey(req.headers)) return refuse(res, 401, 'authentication_error');
  if (!body) return refuse(res, 400, 'invalid_request_error');
  return serve(res, body, error);
}

const listen = (fn) => (certFile ? https.createServer({ cert: fs.readFileSync(certFile), key: fs.readFileSync(keyFile) }, fn) : http.createServer(fn));
const server = listen((req, res) => {
  const parts = [];
  req.on('data', (c) => parts.push(c));
  req.on('end', () => answer(req, res, Buffer.concat(parts)));
});
server.listen(Number(port), '127.0.0.1', () => console.log('fakemodel on ' + server.address().port));
