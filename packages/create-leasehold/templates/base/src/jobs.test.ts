/** Time passes only when the test says so: a night takes milliseconds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { mail, start } from "./jobs.js";

const MINUTE_MS = 60_000;

test("two processes make the report of a night once", async () => {
  const { clock, client } = world();
  const lines: string[] = [];
  const processes = await Promise.all(["a", "b"].map(client));
  for (const process of processes) await start(process, (line) => lines.push(line));
  await clock.advance(10 * MINUTE_MS);
  assert.deepEqual(lines, []);
  while (lines.length === 0) await clock.advance(MINUTE_MS);
  await clock.advance(10 * MINUTE_MS);
  assert.deepEqual(lines, ["the report of 2026-11-26 is made"]);
  await Promise.all(processes.map((process) => process.close()));
});

test("a mail that fails is sent at the second attempt", async () => {
  const { clock, client } = world();
  const process = await client("a");
  const lines: string[] = [];
  let attempts = 0;
  const send = async () => {
    attempts += 1;
    if (attempts === 1) throw new Error("the mail server does not answer");
  };
  await start(process, (line) => lines.push(line), send);
  const { id } = await process.tasks.enqueue(mail, { to: "ada@example.com" });
  while (lines.length === 0) await clock.advance(1_000);
  await clock.advance(1_000);
  assert.deepEqual(lines, ["the mail to ada@example.com is sent"]);
  assert.equal((await process.tasks.get(id))?.state, "done");
  await process.close();
});

/** Clients of one store, half an hour before the night's report. */
function world() {
  const env = manualEnv({ wallMs: Date.parse("2026-11-26T01:30:00Z") });
  const source = memory();
  return { clock: env.clock, client: (holder: string) => connect(source, { env, holder }) };
}
