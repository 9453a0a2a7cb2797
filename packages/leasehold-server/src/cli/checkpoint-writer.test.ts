import { createHash, createHmac } from "node:crypto";
import { type AuditEntry, CHAIN_BEGIN } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { writeCheckpoints } from "./checkpoint-writer.js";
import { type SignedCheckpoint, type Signer, wrongSignature } from "./checkpoints.js";

const mac = (text: string) => createHmac("sha256", "secret").update(text).digest();
const signer: Signer = { algorithm: "HMAC-SHA-256", keyId: "k", sign: mac };
const verifier = { ...signer, verify: (text: string, tag: Buffer) => mac(text).equals(tag) };

const ENTRY = {
  namespace: "n",
  actor: "a",
  action: "limits.set",
  reason: null,
  phase: "done",
  details: "{}",
} as const;

function chainOf(length: number, target: string): AuditEntry[] {
  const entries: AuditEntry[] = [];
  for (let seq = 1; seq <= length; seq += 1) {
    const { namespace, actor, action, reason, phase, details } = ENTRY;
    const before = entries.at(-1)?.hash ?? CHAIN_BEGIN.hash;
    const fields = [before, seq, "now", namespace, actor, action, target, reason, phase, details];
    const hash = createHash("sha256").update(JSON.stringify(fields)).digest("hex");
    entries.push({ ...ENTRY, target, seq, at: "now", hash });
  }
  return entries;
}

/** A writer over a chain that the test replaces; `turn` lets one interval pass. */
function started(begin: AuditEntry[]) {
  const events: unknown[] = [];
  const log = (fields: object) => void events.push((fields as { event?: string }).event);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const state = { entries: begin, isFull: false };
  const lines: SignedCheckpoint[] = [];
  const stop = new AbortController();
  const audit = {
    head: async () => state.entries.at(-1) ?? CHAIN_BEGIN,
    read: async (after: number, limit: number) => state.entries.slice(after, after + limit),
  };
  const add = async (line: string) => {
    if (state.isFull) throw new Error("disk full");
    lines.push(JSON.parse(line) as SignedCheckpoint);
  };
  const all = { ...env, signer, everyMs: 1_000, add, signal: stop.signal };
  const ended = writeCheckpoints(audit, all);
  const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
  const turn = async () => {
    await settled();
    await env.clock.advance(1_000);
    await settled();
  };
  const close = () => {
    stop.abort();
    return ended;
  };
  return { state, lines, events, turn, settled, close };
}

it("writes the end of the chain at once, and again after each interval", async () => {
  const { state, lines, turn, settled, close } = started(chainOf(2, "t"));
  await settled();
  expect(lines.map(({ seq }) => seq)).toEqual([2]);
  state.entries = chainOf(5, "t");
  await turn();
  await turn();
  expect(lines.map(({ seq }) => seq)).toEqual([2, 5, 5]);
  for (const line of lines) expect(wrongSignature(line, verifier)).toBeNull();
  await close();
});

it("signs nothing when the chain no longer contains the last checkpoint", async () => {
  const { state, lines, events, turn, settled, close } = started(chainOf(3, "t"));
  await settled();
  for (const changed of [chainOf(4, "rewritten"), chainOf(2, "t"), []]) {
    state.entries = changed;
    await turn();
  }
  expect(lines.map(({ seq }) => seq)).toEqual([3]);
  expect(events).toEqual(["audit_checkpoints", "audit_broken", "audit_broken", "audit_broken"]);
  await close();
});

it("goes on after a failure", async () => {
  const { state, lines, events, turn, close } = started(chainOf(1, "t"));
  state.isFull = true;
  await turn();
  expect(events).toContain("checkpoint_failed");
  state.isFull = false;
  await turn();
  expect(lines.map(({ seq }) => seq)).toContain(1);
  await close();
});

it("a signature covers each field", () => {
  const fields = { seq: 1, hash: "a".repeat(64), at: "now", ...signer };
  const { algorithm, keyId } = signer;
  const text = ["leasehold audit checkpoint 1", 1, fields.hash, "now", algorithm, keyId, ""];
  const signature = mac(text.join("\n")).toString("base64");
  const { seq, hash, at } = fields;
  const whole: SignedCheckpoint = { version: 1, seq, hash, at, algorithm, keyId, signature };
  expect(wrongSignature(whole, verifier)).toBeNull();
  const wrong = { seq: 2, hash: "b".repeat(64), at: "1\nnow", signature: "" };
  for (const [name, value] of Object.entries({ ...wrong, algorithm: "Ed25519", keyId: "x" })) {
    expect(wrongSignature({ ...whole, [name]: value }, verifier), name).not.toBeNull();
  }
});
