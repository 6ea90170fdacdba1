// A JavaScript interpreter that keeps its variables: runs inside, as the program of a context, in the
// same process as the code of its cells. Evaluation is that of node's own REPL (await at the top, const
// and class across cells). Frames (sandbox_cell.h) go over descriptor 10, which nothing prints to.
'use strict';
(() => {
  const fs = require('fs'), net = require('net'), repl = require('repl'), util = require('util');
  const { PassThrough, Writable } = require('stream');
  const WIRE = 10;
  // Below what the caller lets pass: more ends the interpreter there.
  const PLAIN_MAX = 1 << 20, BUNDLE_MAX = 6 << 20, SHOWN_MAX = 900, SHOWN_BYTES_MAX = 50 << 20;
  const MIME = /^[a-z0-9][a-z0-9.+_-]*\/[a-z0-9.+_-]+$/;
  const pause = new Int32Array(new SharedArrayBuffer(4));

  const send = (kind, body) => {
    const head = Buffer.from(kind + String(body.length).padStart(10, '0') + '\n');
    let data = Buffer.concat([head, body]);
    while (data.length > 0) {
      try {
        data = data.subarray(fs.writeSync(WIRE, data));
      } catch (e) {
        if (e.code !== 'EAGAIN') process.exit(0);
        Atomics.wait(pause, 0, 0, 1);
      }
    }
  };
  const encode = (text) => Buffer.from(String(text).replace(/\0/g, '\ufffd'));
  const field = (text) => {
    const data = encode(text);
    return Buffer.concat([Buffer.from(String(data.length).padStart(10, '0')), data]);
  };

  let shown = 0, shownBytes = 0; // by this cell
  const leftOut = (what) => process.stderr.write(`left out: ${what}\n`);
  const sendBundle = (frame, found) => {
    const parts = [];
    let size = 0;
    for (const kind of Object.keys(found).sort()) {
      let v = found[kind];
      if (v === null || v === undefined) continue;
      if (!MIME.test(kind) || kind.length > 127) {
        leftOut(`${JSON.stringify(kind)} is not a MIME type`);
        continue;
      }
      if (v instanceof Uint8Array) v = Buffer.from(v).toString('base64');
      else if (typeof v !== 'string') v = JSON.stringify(v) ?? String(v);
      if (kind === 'text/plain' && v.length > PLAIN_MAX) v = v.slice(0, PLAIN_MAX) + ' ... (cut)';
      const data = field(v);
      if (size + data.length > BUNDLE_MAX) {
        leftOut(`${kind} of more than ${BUNDLE_MAX} bytes`);
        continue;
      }
      size += data.length;
      parts.push(field(kind), data);
    }
    shownBytes += size;
    if (++shown > SHOWN_MAX || shownBytes > SHOWN_BYTES_MAX) {
      leftOut('more displays than one cell may have');
    } else if (parts.length > 0) {
      send(frame, Buffer.concat(parts));
    }
  };
  const bundleOf = (v) => {
    const found = v !== null && typeof v === 'object' && typeof v._repr_mimebundle_ === 'function' ?
      { ...v._repr_mimebundle_() } : {};
    if (!('text/plain' in found)) found['text/plain'] = util.inspect(v);
    return found;
  };
  // A bundle is shown as it is: an object whose names are MIME types.
  const isBundle = (v) => v !== null && typeof v === 'object' && !Array.isArray(v) &&
    Object.keys(v).length > 0 && Object.keys(v).every((k) => MIME.test(k));
  globalThis.display = (...values) => {
    for (const v of values) sendBundle('B', isBundle(v) ? v : bundleOf(v));
  };

  // What is thrown in a cell comes here by the REPL's domain; what comes late is told as output.
  let failed = null;
  const uncaught = (e) => {
    if (failed !== null) failed(e);
    else process.stderr.write('Uncaught ' + util.inspect(e) + '\n');
  };
  process.on('uncaughtException', uncaught);
  process.on('unhandledRejection', (e) => {
    process.stderr.write('Uncaught (in promise) ' + util.inspect(e) + '\n');
  });

  const server = repl.start({
    prompt: '',
    input: new PassThrough(),
    output: new Writable({ write: (chunk, encoding, done) => done() }),
    terminal: false,
    useGlobal: true,
    breakEvalOnSigint: true,
  });
  server.removeAllListeners('exit');
  server._domain.removeAllListeners('error');
  server._domain.on('error', uncaught);
  // While a script runs the REPL watches for the signal by itself, and a listener would undo that.
  const interrupt = () => {
    if (failed !== null) server.emit('SIGINT');
  };
  process.on('SIGINT', interrupt);

  // The frames of the cell alone: what is above them is node's and ours.
  const trace = (e) => {
    const lines = String(e.stack ?? e).split('\n');
    const cut = lines.findIndex((l) => /^ +at .*(node:(internal\/)?(vm|repl|domain)|\[eval\])/.test(l));
    return (cut < 0 ? lines : lines.slice(0, cut)).join('\n');
  };
  const describe = (e) => {
    if (e instanceof repl.Recoverable) e = e.err;
    if (e !== null && typeof e === 'object' && 'message' in e) {
      return [String(e.name ?? 'Error'), String(e.message), trace(e)];
    }
    const words = util.inspect(e);
    return ['thrown', words, 'Uncaught ' + words];
  };

  let cells = 0;
  const run = (text) => new Promise((done) => {
    const finish = (e, v, threw) => {
      let end = ['ok', '', '', ''];
      if (threw && e !== null && typeof e === 'object' && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
        end = ['interrupted', 'Interrupted', e.message, ''];
      } else if (threw) {
        end = ['error', ...describe(e)];
      } else if (v !== undefined) {
        try {
          globalThis._ = v;
          sendBundle('V', bundleOf(v));
        } catch (broken) {
          end = ['error', ...describe(broken)];
        }
      }
      send('E', Buffer.concat(end.map((s) => field(s.slice(0, 262144)))));
      done();
    };
    const once = (e, v, threw) => {
      if (failed === null) return;
      failed = null;
      finish(e, v, threw);
    };
    failed = (e) => once(e, undefined, true);
    shown = shownBytes = 0;
    process.removeListener('SIGINT', interrupt);
    try {
      server.eval(text + '\n', server.context, `cell${++cells}`,
        (e, v) => once(e, v, e !== null && e !== undefined));
    } catch (e) {
      failed?.(e);
    }
    process.on('SIGINT', interrupt);
  });

  let have = Buffer.alloc(0), busy = false;
  const turn = async () => {
    if (busy) return;
    busy = true;
    while (have.length >= 12) {
      const size = Number(have.subarray(1, 11).toString());
      if (have.length < 12 + size) break;
      const text = have.subarray(12, 12 + size).toString();
      have = have.subarray(12 + size);
      await run(text);
    }
    busy = false;
  };
  const wire = new net.Socket({ fd: WIRE, readable: true, writable: false });
  wire.on('data', (data) => {
    have = Buffer.concat([have, data]);
    // Behind the signals that came before it: the loop tells of those last.
    setImmediate(turn);
  });
  wire.on('end', () => process.exit(0));
  wire.on('error', () => process.exit(0));
  send('H', Buffer.from('cofferdam-context 1'));
})();
