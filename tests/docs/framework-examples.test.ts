/** The examples in frameworks, as their headings say to run them: examples/express.js, examples/nestjs, examples/nextjs. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { freePort } from "../support/engines/free-port.js";
import { quickPglite } from "../support/engines/pglite.js";
import {
  describePostgres,
  describeUnless,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { checkBuild, ownEnvironment } from "../support/processes/cli.js";
import { typescript } from "../support/processes/compile.js";
import { Child, endAll } from "../support/processes/processes.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const node = (args: readonly string[], env: NodeJS.ProcessEnv = {}, cwd = root) =>
  new Child(process.execPath, args, { cwd, env: { ...ownEnvironment(), ...env } });
const PLACED = [
  /^ada@example.com: 201 .*"customer":"ada@example.com"/m,
  /^bob@example.com: 402 .*card declined/m,
  /^1 orders$/m,
];

beforeAll(checkBuild);
afterEach(() => endAll());

it("Express: the task is there with the order, and not without it", {
  timeout: 240_000,
}, async () => {
  const { code, stdout, stderr } = await node(["examples/express.js"], await quickPglite()).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  for (const line of PLACED) expect(stdout).toMatch(line);
  expect(stdout.match(/^mail.*$/gm)).toEqual(["mail for order 1 to ada@example.com"]);
  expect(stdout).toContain('tasks: [{"kind":"mail.confirm-order","state":"done"}]');
});

describePostgres("on PostgreSQL", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
    return () => database.drop();
  });

  it("NestJS: the task is there with the order, and not without it", async () => {
    await typescript(join(root, "examples/nestjs"));
    const { code, stdout, stderr } = await node(["examples/nestjs/dist/main.js", database.url])
      .ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const line of PLACED) expect(stdout).toMatch(line);
    expect(stdout.match(/^mail.*$/gm)).toEqual(["mail for order 1 to ada@example.com"]);
    expect(stdout).toMatch(/^tasks: .*"pending":0,"running":0,"done":1,/m);
  });
});

const nextjs = join(root, "examples/nextjs");
const next = join(nextjs, "node_modules/next/dist/bin/next");
const missing = existsSync(next) ? null : "no Next.js: npm ci --prefix examples/nextjs";

describeUnless(missing, "Next.js", () => {
  let database: FreshDatabase;
  beforeEach(async () => {
    database = await freshDatabase();
    return () => database.drop();
  });
  const start = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    node(
      [next, ...args],
      { DATABASE_URL: database.url, NEXT_TELEMETRY_DISABLED: "1", ...env },
      nextjs,
    );

  async function placeOrders(mode: "dev" | "start", env: NodeJS.ProcessEnv = {}): Promise<Child> {
    const port = await freePort();
    const server = start([mode, "--port", `${port}`, "--hostname", "127.0.0.1"], env);
    await server.listening(port);
    const place = async (customer: string, card: string) => {
      const body = JSON.stringify({ customer, card });
      const response = await fetch(`http://127.0.0.1:${port}/orders`, { method: "POST", body });
      return [response.status, await response.json()];
    };
    expect(await place("ada", "valid")).toEqual([201, { id: 1, customer: "ada" }]);
    expect(await place("bob", "declined")).toEqual([402, { error: "card declined" }]);
    // The worker of lib/worker.js, in the same process.
    await server.until(({ out }) => out.includes("mail for order 1 to ada"));
    const orders = await (await fetch(`http://127.0.0.1:${port}/orders`)).json();
    expect(orders).toEqual([{ id: 1, customer: "ada" }]);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    expect((await client.query("SELECT FROM leasehold.task")).rows).toHaveLength(1);
    await client.end();
    return server;
  }

  it("has the task with the order, and not without it", { timeout: 300_000 }, async () => {
    await (await placeOrders("dev")).endGroup();
  });

  it("does so when built without a database, and ends with its worker", {
    timeout: 600_000,
  }, async () => {
    const nowhere = `postgres://127.0.0.1:${await freePort()}/app`;
    const { code, stdout, stderr } = await start(["build"], { DATABASE_URL: nowhere }).ended;
    expect({ code, said: stdout + stderr }).toEqual({
      code: 0,
      said: expect.not.stringMatching(/ECONNREFUSED|Warning/),
    });
    const unserved = await start(["start", "--port", "0"], { DATABASE_URL: nowhere }).ended;
    expect(unserved).toMatchObject({ code: 1, stderr: expect.stringContaining("ECONNREFUSED") });
    const server = await placeOrders("start", { NEXT_MANUAL_SIG_HANDLE: "true" });
    expect(await server.end("SIGTERM")).toMatchObject({ code: 0 });
  });
});

it("stand on the page as they are", async () => {
  const page = await readFile(join(root, "docs/transactions.md"), "utf8");
  const [, section = ""] = page.split("## In your framework");
  const shown = [...section.matchAll(/^```(?:js|ts)\n\/\/ (\S+)\n([^]*?)^```$/gm)];
  expect(shown.map(([, path]) => path)).toEqual([
    "examples/express.js",
    "examples/nextjs/app/orders/route.js",
    "examples/nextjs/instrumentation.js",
    "examples/nextjs/lib/worker.js",
    "examples/nestjs/leasehold.module.ts",
    "examples/nestjs/orders.module.ts",
  ]);
  for (const [, path = "", code = ""] of shown) {
    expect(await readFile(join(root, path), "utf8")).toContain(code);
  }
});
