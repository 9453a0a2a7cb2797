/** The tests advance a manual clock, so a whole night takes milliseconds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { email, start } from "./jobs.js";

const MINUTE_MS = 60_000;

test("two processes generate the nightly report once", async () => {
  const { clock, client } = world();
  const lines: string[] = [];
  const processes = await Promise.all(["a", "b"].map(client));
  for (const process of processes) await start(process, (line) => lines.push(line));
  await clock.advance(10 * MINUTE_MS);
  assert.deepEqual(lines, []);
  while (lines.length === 0) await clock.advance(MINUTE_MS);
  await clock.advance(10 * MINUTE_MS);
  assert.deepEqual(lines, ["generated the report for 2026-11-26"]);
  await Promise.all(processes.map((process) => process.close()));
});

test("a failed email is sent on the second attempt", async () => {
  const { clock, client } = world();
  const process = await client("a");
  const lines: string[] = [];
  let attempts = 0;
  const send = async () => {
    attempts += 1;
    if (attempts === 1) throw new Error("the email server is unavailable");
  };
  await start(process, (line) => lines.push(line), send);
  const { id } = await process.tasks.enqueue(email, { to: "ada@example.com" });
  while (lines.length === 0) await clock.advance(1_000);
  await clock.advance(1_000);
  assert.deepEqual(lines, ["sent an email to ada@example.com"]);
  assert.equal((await process.tasks.get(id))?.state, "done");
  await process.close();
});

/** Clients of one store, half an hour before the night's report. */
function world() {
  const env = manualEnv({ wallMs: Date.parse("2026-11-26T01:30:00Z") });
  const source = memory();
  return { clock: env.clock, client: (holder: string) => connect(source, { env, holder }) };
}
