// Cedar's own engine (its WebAssembly build) on the rules and asks of bench_policy. Rules come on
// standard input as the source that `bench_policy print` wrote; one line of JSON comes out. A require
// becomes a forbid unless the context says that its people signed. Policies are parsed beforehand.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const cedar = createRequire(process.argv[2] + "/")("@cedar-policy/cedar-wasm/nodejs");
const policy = JSON.parse(readFileSync(0, "utf-8"));
const rounds = Number(process.argv[3]);
const sets = {
  "@data": ["read", "txn"],
  "@change": ["write", "schema"],
  "@destructive": ["delete", "bulk", "drop", "overwrite", "disrupt"],
  "@escape": ["session", "exec", "priv", "net", "audit", "secret", "opaque", "invalid"],
};
const list = (names) => "[" + names.flatMap((n) => sets[n] ?? [n]).map((n) => `"${n}"`).join(",") + "]";

function rule(r) {
  const kind = r.permit ? "permit" : "forbid";
  const c = r.permit ?? r.require ?? r.forbid;
  const when = [];
  if (c.effects.only) when.push(`${list(c.effects.only)}.containsAll(context.effects)`);
  if (c.effects.any) when.push(`${list(c.effects.any)}.containsAny(context.effects)`);
  if (c.agent) when.push(`context.agent == "${c.agent}"`);
  if (c.during) when.push(`context.${c.during}`);
  const unless = r.require ? ` unless { ${r.approve.map((s) => `context.${s.role} >= ${s.count}`).join(" && ")} }` : "";
  return `${kind}(principal, action, resource == T::"${c.target}") when { ${when.join(" && ")} }${unless};`;
}

const staticPolicies = Object.fromEntries(policy.rules.map((r) => [r.id, rule(r)]));
const t0 = process.hrtime.bigint();
const parsed = cedar.preparsePolicySet("bench", { staticPolicies });
const parseMs = Number(process.hrtime.bigint() - t0) / 1e6;
if (parsed.type !== "success") throw new Error(JSON.stringify(parsed).slice(0, 500));

const targets = Object.keys(policy.targets).sort();
const effects = [["read"], ["read", "write"], ["delete"], ["drop", "txn"]];
// Fri 16:00 to Mon 08:00, hours of the week from Monday.
const frozen = (ms) => {
  const d = new Date(ms);
  const hour = ((d.getUTCDay() + 6) % 7) * 24 + d.getUTCHours();
  return hour >= 4 * 24 + 16 || hour < 8;
};
const asks = [];
for (let i = 0; i < 997; i++)
  asks.push({
    principal: { type: "P", id: "r-1" },
    action: { type: "A", id: "do" },
    resource: { type: "T", id: targets[(i * 7) % targets.length] },
    context: { effects: effects[i % 4], agent: "a0", yearend: frozen(1773230400000 + i * 3600000), dba: 0, oncall: 0 },
    preparsedPolicySetId: "bench",
    entities: [],
  });

let allow = 0;
const took = [];
for (let r = 0; r < rounds; r++) {
  allow = 0;
  const t = process.hrtime.bigint();
  for (const a of asks) allow += cedar.statefulIsAuthorized(a).response.decision === "allow" ? 1 : 0;
  took.push(Number(process.hrtime.bigint() - t) / asks.length);
}
took.sort((a, b) => a - b);
console.log(JSON.stringify({ rules: policy.rules.length, ns: took[rounds >> 1], parse_ms: parseMs, allow, version: cedar.getCedarVersion() }));
