/** What a program without a logger prints when something goes wrong: real processes, and their stderr. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { Cli, checkBuild, endAll } from "../support/processes/cli.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
let folder: string;
beforeAll(async () => {
  checkBuild();
  // Below the root, where `leasehold` can be imported.
  folder = await mkdtemp(join(root, "tests/e2e/.warnings-"));
});
afterEach(() => endAll());
afterAll(() => rm(folder, { recursive: true, force: true }));

async function program(name: string, text: string): Promise<Cli> {
  const script = join(folder, `${name}.mjs`);
  await writeFile(script, text);
  return new Cli([], { script });
}

const DEAD_TASK = (options: string) => `
  import { connect, defineTask } from "leasehold";
  const leasehold = await connect("memory:"${options});
  const mail = defineTask("mail", { maxAttempts: 1 });
  leasehold.tasks.work([mail.handle(() => sendMial())], { queues: ["default"] });
  const { id } = await leasehold.tasks.enqueue(mail, {});
  while ((await leasehold.tasks.get(id)).state !== "dead") await new Promise((go) => setTimeout(go, 10));
  await leasehold.close();`;

it("prints that a handler has failed, and why", { timeout: 60_000 }, async () => {
  const { code, stderr } = await (await program("dead", DEAD_TASK(""))).ended;
  expect(code).toBe(0);
  expect(stderr).toMatch(
    /\[LEASEHOLD_W_TASK_FAILED\] LeaseholdWarning: task failed: ReferenceError: sendMial is not defined/,
  );
  expect(stderr).toContain("kind: mail");
  expect(stderr).toMatch(/dead\.mjs:\d+/);
});

it("prints nothing where a logger has it all", { timeout: 60_000 }, async () => {
  const logger =
    ", { logger: { debug() {}, info() {}, warn: (_, m) => console.log(m), error() {} } }";
  const { stdout, stderr } = await (await program("logged", DEAD_TASK(logger))).ended;
  expect([stdout, stderr]).toEqual(["task failed", ""]);
});

it("names a lease that keeps the process alive", { timeout: 60_000 }, async () => {
  const text = `
    import { connect } from "leasehold";
    const leasehold = await connect("memory:");
    await leasehold.acquire("forgotten");`;
  const running = await program("forgotten", text);
  const line = await running.until(({ err }) => err.find((text) => text.includes("FORGOTTEN")));
  expect(line).toContain("a lease is still held, and nothing else keeps this process alive");
  await running.until(({ err }) => err.some((text) => text.includes('resources: ["forgotten"]')));
});

it("warns of a database that does not answer", { timeout: 60_000 }, async () => {
  const text = `
    import { connect } from "leasehold";
    const source = { async open(env) {
      const stores = await (await import("leasehold/stores/memory")).memory().open(env);
      const error = new (await import("leasehold")).StoreUnavailableError("the database is down", { outcome: "none" });
      const failed = async (requests) => requests.map(() => ({ status: "failed", applied: "no", retryable: true, error }));
      const get = (store, name) =>
        name === "renew" ? failed : typeof store[name] === "function" ? store[name].bind(store) : store[name];
      return { ...stores, leases: new Proxy(stores.leases, { get }) };
    } };
    const leasehold = await connect(source);
    await leasehold.acquire("r", { ttlMs: 2_000 });
    setInterval(() => {}, 1_000);`;
  const running = await program("down", text);
  const line = await running.until(({ err }) =>
    err.find((text) => text.includes("RENEWAL_FAILED")),
  );
  expect(line).toContain("renewal failed: StoreUnavailableError: the database is down");
});
