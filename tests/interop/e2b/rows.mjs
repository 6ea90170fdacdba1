// Each row of docs/e2b.md by E2B's own SDKs, unmodified: a line of JSON for each, which e2b-sdk.t makes TAP of.
import assert from 'node:assert/strict'
import { Sandbox as CodeSandbox } from '@e2b/code-interpreter'
import {
  Sandbox, CommandExitError, TimeoutError, NotFoundError, FileNotFoundError, InvalidArgumentError, AuthenticationError,
  RateLimitError, SandboxNotFoundError, FilesystemEventType,
} from 'e2b'

const HOST = process.env.TARGET_HOST
const row = async (name, f) => {
  let note = ''
  try {
    await f()
  } catch (e) {
    note = `${e.stack}`
  }
  console.log(JSON.stringify({ name, ok: note === '', note }))
}
const until = async (f) => {
  for (let i = 0; i < 600; i++) {
    if (await f()) return
    await new Promise((r) => setTimeout(r, 50))
  }
  assert.fail('it does not come to pass')
}

const box = await CodeSandbox.create({ timeoutMs: 120_000, metadata: { job: 'a & b', n: '1' }, envs: { GIVEN: 'here' } })

await row('a sandbox is created, healthy, and tells what it is', async () => {
  assert.equal(await box.isRunning(), true)
  const i = await box.getInfo()
  assert.equal(i.sandboxId, box.sandboxId)
  assert.equal(i.state, 'running')
  assert.deepEqual(i.metadata, { job: 'a & b', n: '1' })
  assert.ok(i.endAt > i.startedAt && i.cpuCount >= 1 && i.memoryMB >= 16)
})
await row('it is listed, filtered by metadata, in pages', async () => {
  const ids = async (opts) => {
    const p = Sandbox.list(opts)
    const out = []
    while (p.hasNext) out.push(...(await p.nextItems()).map((s) => s.sandboxId))
    return out
  }
  const other = await Sandbox.create({ metadata: { job: 'c' } })
  assert.deepEqual(await ids({ query: { metadata: { job: 'a & b' } } }), [box.sandboxId])
  assert.deepEqual(await ids({ limit: 1 }), [box.sandboxId, other.sandboxId])
  assert.deepEqual(await ids({ query: { state: ['paused'] } }), [])
  await other.kill()
  assert.deepEqual(await ids(), [box.sandboxId])
})
await row('a command has environment, streams, status', async () => {
  const chunks = []
  const r = await box.commands.run('echo $GIVEN $OWN; pwd; echo e >&2', { envs: { OWN: 'own' }, cwd: '/tmp', onStdout: (d) => chunks.push(d) })
  assert.deepEqual([r.stdout, r.stderr, r.exitCode, chunks.join('')], ['here own\n/tmp\n', 'e\n', 0, 'here own\n/tmp\n'])
})
await row('a status other than 0 is a CommandExitError', () => assert.rejects(box.commands.run('echo o; exit 3'),
  (e) => e instanceof CommandExitError && e.exitCode === 3 && e.stdout === 'o\n'))
await row('a command whose time is over is a TimeoutError', async () => {
  await assert.rejects(box.commands.run('sleep 100', { timeoutMs: 400 }), TimeoutError)
  await until(async () => (await box.commands.list()).length === 0)
})
await row('much output comes whole', async () => {
  const r = await box.commands.run('head -c 3000000 /dev/zero | tr "\\0" x')
  assert.equal(r.stdout.length, 3000000)
})
await row('a command in the background is listed, fed, ended by the end of its input', async () => {
  const h = await box.commands.run('cat', { background: true, stdin: true })
  const l = await box.commands.list()
  assert.deepEqual(l.map((p) => [p.pid, p.cmd, p.args.at(-1)]), [[h.pid, '/bin/bash', 'cat']])
  await box.commands.sendStdin(h.pid, 'typed')
  await box.commands.closeStdin(h.pid)
  assert.equal((await h.wait()).stdout, 'typed')
})
await row('it is left and connected to again', async () => {
  const h = await box.commands.run('read x; echo late', { background: true, stdin: true })
  await h.disconnect()
  const g = await box.commands.connect(h.pid)
  await box.commands.sendStdin(h.pid, '\n')
  assert.equal((await g.wait()).stdout, 'late\n')
})
await row('it is killed, once', async () => {
  const h = await box.commands.run('sleep 1000', { background: true })
  assert.equal(await h.kill(), true)
  await assert.rejects(h.wait(), (e) => e instanceof CommandExitError && e.error === 'signal: killed')
  await until(async () => !(await box.commands.list()).length)
  assert.equal(await box.commands.kill(h.pid), false)
})
await row('a terminal takes input and another size', async () => {
  let out = ''
  const h = await box.pty.create({ cols: 80, rows: 24, onData: (d) => (out += new TextDecoder().decode(d)) })
  await box.pty.resize(h.pid, { cols: 101, rows: 33 })
  await box.pty.sendInput(h.pid, new TextEncoder().encode('stty size; exit\n'))
  await h.wait()
  assert.match(out, /33 101/)
})
await row('files are written and read as text, bytes, streams', async () => {
  const i = await box.files.write('/home/user/a/b.txt', 'häh')
  assert.deepEqual([i.path, i.name], ['/home/user/a/b.txt', 'b.txt'])
  assert.equal(await box.files.read('a/b.txt'), 'häh')
  await box.files.write('n', new Uint8Array([0, 1, 255]).buffer)
  assert.deepEqual([...(await box.files.read('n', { format: 'bytes' }))], [0, 1, 255])
  await box.files.write('empty', '')
  assert.equal(await box.files.read('empty'), '')
  await box.files.write('o', new Blob(['x'.repeat(100000)]), { useOctetStream: true })
  let n = 0
  for await (const c of await box.files.read('o', { format: 'stream' })) n += c.length
  assert.equal(n, 100000)
  const two = await box.files.write([{ path: 'p/1', data: '1' }, { path: 'p/2', data: '2' }])
  assert.deepEqual(two.map((f) => f.path), ['/work/p/1', '/work/p/2'])
})
await row('a file that is not there is a FileNotFoundError', async () => {
  await assert.rejects(box.files.read('/nope'), FileNotFoundError)
  await assert.rejects(box.files.list('/nope'), FileNotFoundError)
  await assert.rejects(box.files.read('/work'), InvalidArgumentError)
})
await row('directories are made, listed, looked at, renamed, removed', async () => {
  assert.deepEqual([await box.files.makeDir('d/e'), await box.files.makeDir('d/e')], [true, false])
  await box.files.write('d/e/f', '123')
  const l = await box.files.list('d', { depth: 2 })
  assert.deepEqual(l.map((e) => [e.path, e.type]).sort(), [['/work/d/e', 'dir'], ['/work/d/e/f', 'file']])
  const i = await box.files.getInfo('d/e/f')
  assert.deepEqual([i.size, i.permissions, i.type, i.modifiedTime instanceof Date], [3, '-rw-r--r--', 'file', true])
  assert.equal((await box.files.rename('d/e/f', 'g/h')).path, '/work/g/h')
  assert.deepEqual([await box.files.exists('d/e/f'), await box.files.exists('g/h')], [false, true])
  await box.files.remove('d')
  assert.equal(await box.files.exists('d'), false)
})
await row('a directory is watched', async () => {
  const seen = []
  const w = await box.files.watchDir('/work', (e) => seen.push(`${e.type} ${e.name}`))
  await box.files.write('w.txt', '1')
  await box.commands.run('mkdir wd; rm w.txt')
  await until(() => ['create w.txt', 'write w.txt', 'create wd', 'remove w.txt'].every((s) => seen.includes(s)))
  await w.stop()
  assert.ok(!seen.some((s) => s.includes('cofferdam')) && FilesystemEventType.WRITE === 'write')
})
await row('a signed URL opens one file', async () => {
  const u = await box.downloadUrl('a/b.txt', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(u)).text(), 'häh')
  assert.equal((await fetch(u.replace('b.txt', 'c.txt'))).status, 401)
  const f = new FormData()
  f.append('file', new Blob(['up']), 'up.txt')
  assert.equal((await fetch(await box.uploadUrl('up.txt'), { method: 'POST', body: f })).status, 200)
  assert.equal(await box.files.read('up.txt'), 'up')
})
await row('code has output, results, errors, and keeps its variables', async () => {
  const out = []
  const r = await box.runCode('x = 41\nprint("o")\nx + 1', { onStdout: (m) => out.push(m.line) })
  assert.deepEqual([r.text, r.executionCount, out.join('')], ['42', 1, 'o\n'])
  const e = await box.runCode('x / 0')
  assert.equal(e.error.name, 'ZeroDivisionError')
  assert.match(e.error.traceback, /line 1/)
  assert.equal((await box.runCode('x')).text, '41')
  assert.equal((await box.runCode('print("ä" * 70000)')).logs.stdout.join(''), 'ä'.repeat(70000) + '\n')
  const h = await box.runCode('class H:\n  def _repr_html_(self): return "<b>1</b>"\nH()')
  assert.equal(h.results[0].html, '<b>1</b>')
})
await row('code in JavaScript and bash; other languages are refused', async () => {
  assert.equal((await box.runCode('[1, 2].map((v) => v * 2)', { language: 'javascript' })).text, '[ 2, 4 ]')
  assert.equal((await box.runCode('echo $GIVEN', { language: 'bash' })).logs.stdout.join(''), 'here\n')
  await assert.rejects(box.runCode('1', { language: 'r' }), /400/)
})
await row('code whose time is over is interrupted, and its context lives', async () => {
  await assert.rejects(box.runCode('import time\ny = 1\ntime.sleep(100)', { timeoutMs: 700 }), TimeoutError)
  assert.equal((await box.runCode('y')).text, '1')
})
await row('variables of an execution', async () => assert.equal((await box.runCode('import os; os.environ["Q"]', { envs: { Q: 'q"1' } })).text, `'q"1'`))
await row('contexts are made, listed, restarted, removed', async () => {
  const c = await box.createCodeContext({ language: 'python', cwd: '/tmp' })
  await box.runCode('z = 5', { context: c })
  assert.equal((await box.runCode('import os; (z, os.getcwd())', { context: c })).text, `(5, '/tmp')`)
  assert.ok((await box.listCodeContexts()).some((k) => k.id === c.id && k.cwd === '/tmp' && k.language === 'python'))
  await box.restartCodeContext(c)
  assert.equal((await box.runCode('z', { context: c })).error.name, 'NameError')
  await box.removeCodeContext(c)
  await assert.rejects(box.runCode('1', { context: c }), NotFoundError)
})
await row('a target is reached; what the policy refuses is refused with its rule', async () => {
  assert.equal((await box.commands.run('psql -Atc "select 1 + 1"')).stdout, '2\n')
  await assert.rejects(box.commands.run('psql -c "DROP TABLE spare"'), (e) => /two-people/.test(e.stderr) && /request [a-z2-7]{26}/.test(e.stderr))
})
await row('network rules narrow to targets; what is none is refused with words', async () => {
  await assert.rejects(Sandbox.create({ network: { allowOut: ['evil.example'] } }), /403.*evil\.example/)
  const n = await Sandbox.create({ network: { allowOut: [HOST], denyOut: ['0.0.0.0/0'] } })
  assert.equal((await n.commands.run('psql -Atc "select 1"')).stdout, '1\n')
  await n.updateNetwork({ allowInternetAccess: false })
  await assert.rejects(n.commands.run('psql -Atc "select 1"'), CommandExitError)
  await assert.rejects(n.updateNetwork({}), /does not come back/)
  await n.kill()
  const none = await Sandbox.create({ allowInternetAccess: false })
  await assert.rejects(none.commands.run('psql -Atc "select 1"'), CommandExitError)
  await none.kill()
})
await row('timeout is set, and metrics are told', async () => {
  await box.setTimeout(600_000)
  assert.ok((await box.getInfo()).endAt - Date.now() > 500_000)
  const [m] = await box.getMetrics()
  assert.ok(m.memUsed > 0 && m.memTotal > m.memUsed)
})
await row('a sandbox is paused, once, and connected to again', async () => {
  await box.runCode('kept = 7')
  assert.deepEqual([await box.pause(), await box.pause()], [true, false])
  assert.equal(await box.isRunning(), false)
  await assert.rejects(box.commands.run('true'), SandboxNotFoundError)
  const again = await CodeSandbox.connect(box.sandboxId, { timeoutMs: 120_000 })
  assert.equal((await again.runCode('kept')).text, '7')
})
await row('one that pauses at its time wakes by traffic if it was said so', async () => {
  const p = await Sandbox.create({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await until(async () => (await p.getInfo()).state === 'paused')
  assert.equal((await p.commands.run('echo awake')).stdout, 'awake\n')
  await p.kill()
})
await row('what is no user here is an InvalidArgumentError', () => assert.rejects(box.commands.run('id', { user: 'root' }), InvalidArgumentError))
await row('more sandboxes than there is room for are a RateLimitError', async () => {
  const all = await Promise.allSettled(Array.from({ length: 5 }, () => Sandbox.create({ retries: 0 })))
  const made = all.filter((r) => r.status === 'fulfilled')
  assert.deepEqual([made.length, all.filter((r) => r.reason instanceof RateLimitError).length], [3, 2])
  await Promise.all(made.map((r) => r.value.kill()))
})
await row('a wrong key is an AuthenticationError', () => assert.rejects(Sandbox.create({ apiKey: 'wrong-key-0123456789' }), AuthenticationError))
await row("another key's sandbox is not found", () => assert.rejects(Sandbox.connect(box.sandboxId, { apiKey: process.env.OTHER_KEY }), SandboxNotFoundError))
await row('a sandbox is killed, once; then it is gone for each call', async () => {
  const bg = await box.commands.run('sleep 1000', { background: true })
  const ended = assert.rejects(bg.wait(), TimeoutError)
  assert.deepEqual([await box.kill(), await box.kill(), await box.isRunning()], [true, false, false])
  await ended
  await assert.rejects(box.commands.run('true'), SandboxNotFoundError)
  await assert.rejects(box.runCode('1'), TimeoutError)
  await assert.rejects(box.files.read('x'), TimeoutError)
  await assert.rejects(box.getInfo(), SandboxNotFoundError)
})
