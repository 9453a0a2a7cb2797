/**
 * Clients in five processes wait for one lease on PostgreSQL, and two of the processes are killed.
 * LEASEHOLD_WAITERS=1000 raises the number of clients.
 */
import { afterAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { compile } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";

const WAITERS = Number(process.env.LEASEHOLD_WAITERS ?? 40);
const PROCESSES = 5;
const KILLED = [1, 3];

describePostgres("a queue of many waiters", () => {
  afterAll(() => endAll());

  it("is served in order, without the waiters that were killed", async () => {
    const { url, drop } = await freshDatabase();
    const leases = await connect(url);
    const program = await compile(new URL("../support/processes/waiters.ts", import.meta.url));
    const held = await leases.acquire("r");
    const children = Array.from(
      { length: PROCESSES },
      () => new Child("node", [program.path, url, "r"]),
    );
    for (let number = 0; number < WAITERS; number += 1) {
      const child = children[number % PROCESSES] as Child;
      child.say(`${number}`);
      await child.until(({ out }) => out.includes(`queued ${number}`));
    }
    const dead = KILLED.map((at) => children[at] as Child);
    const living = children.filter((child) => !dead.includes(child));
    await Promise.all(dead.map((child) => child.end("SIGKILL")));
    for (const child of living) child.closeInput();
    await held.release();
    const ended = await Promise.all(living.map((child) => child.ended));
    expect(ended.map(({ code, stderr }) => [code, stderr])).toEqual(living.map(() => [0, ""]));
    const grants = living
      .flatMap(({ out }) => out)
      .map((line) => /^granted (\d+) (\d+)$/.exec(line))
      .filter((words) => words !== null)
      .map(([, number, token]) => ({ number: Number(number), token: Number(token) }))
      .sort((a, b) => a.token - b.token);
    expect(new Set(grants.map(({ token }) => token)).size).toBe(grants.length);
    expect(grants.length).toBe(WAITERS * (1 - KILLED.length / PROCESSES));
    // The number depends on the machine: a waiter that answers too late is overtaken.
    const overtaken = grants.filter(({ number }, at) =>
      grants.slice(0, at).some((before) => before.number > number),
    );
    console.info(`${overtaken.length} of ${grants.length} living waiters were overtaken`);
    await leases.close();
    await drop();
    await program.remove();
  });
});
