/** Handlers that hang, in workers of their own and of the command line. */
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { Cli, checkBuild, serve } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));
const STUCK = fileURLToPath(new URL("../support/processes/stuck-worker.js", import.meta.url));
const TIMEOUT_MS = 60_000;
const LIMIT = { maxRunMs: 300 };
const hang = defineTask("hang", LIMIT);
const good = defineTask("good");
const block = defineTask("block", { ...LIMIT, maxAttempts: 2, backoff: { firstMs: 0 } });

/** Eight handlers that never return, then a task that is done at once. */
async function hangThenDo(url: string): Promise<void> {
  await using leasehold = await connect(url);
  const handlers = [hang.handle(() => new Promise(() => {})), good.handle(() => "done")];
  leasehold.tasks.work(handlers, { graceMs: 200 });
  const hung = await leasehold.tasks.enqueueAll(
    hang,
    Array.from({ length: 8 }, () => ({ data: null, maxAttempts: 1 })),
  );
  const next = await leasehold.tasks.enqueue(good, null);
  expect(await next.result({ timeoutMs: 20_000 })).toBe("done");
  await expect(hung[0]?.result({ timeoutMs: 20_000 })).rejects.toMatchObject({
    state: "dead",
    error: "it ran longer than 300 ms (maxRunMs)",
  });
}

/** A process whose event loop is blocked by the handler, and a worker beside it. */
async function blockThenDo(url: string): Promise<void> {
  await using leasehold = await connect(url);
  const task = await leasehold.tasks.enqueue(block, null);
  const cli = `worker --handlers ${HANDLERS} --concurrency 1 --grace 100ms --store ${url}`;
  const blocked = new Cli(cli.split(" "));
  const state = async () => (await leasehold.tasks.get(task.id))?.state;
  await expect.poll(state, { timeout: 30_000 }).toBe("running");
  leasehold.tasks.work([block.handle(() => "done elsewhere")]);
  expect(await task.result({ timeoutMs: 20_000 })).toBe("done elsewhere");
  // Its lease has expired: no holder has reported it.
  expect(await leasehold.tasks.get(task.id)).toMatchObject({ failures: 0, crashes: 1 });
  await blocked.end("SIGKILL");
}

describe("a worker of which eight handlers hang", () => {
  it("does the next task: memory", () => hangThenDo("memory:"), TIMEOUT_MS);
  it("does the next task: HTTP", async () => hangThenDo((await serve()).url), TIMEOUT_MS);
});

describe("a task that blocks the event loop of its worker for longer than it may run", () => {
  it("is done elsewhere: HTTP", async () => blockThenDo((await serve()).url), TIMEOUT_MS);
});

describePostgres("PostgreSQL", () => {
  let database: FreshDatabase;
  beforeEach(async () => {
    database = await freshDatabase();
  });
  afterEach(() => database.drop());
  it("frees the slots of eight hung handlers", () => hangThenDo(database.url), TIMEOUT_MS);
  it("has a blocked task done elsewhere", () => blockThenDo(database.url), TIMEOUT_MS);
});

it(
  "a worker that is stuck does not let its process end as if all were done",
  async () => {
    const stuck = new Cli([], { script: STUCK });
    await stuck.until(({ out }) => out.includes("WORKER_STUCK"));
    await stuck.until(({ out }) => out.includes("still there"));
    await stuck.end("SIGKILL");
  },
  TIMEOUT_MS,
);

it(
  "leasehold worker ends with an exit code of its own when more handlers hang than it has slots",
  async () => {
    const { url } = await serve();
    await using leasehold = await connect(url);
    const deaf = defineTask("deaf", { maxRunMs: 100, maxAttempts: 1 });
    await leasehold.tasks.enqueueAll(deaf, [{ data: 1 }, { data: 2 }]);
    const cli = `worker --handlers ${HANDLERS} --concurrency 1 --grace 100ms --store ${url}`;
    const { code, stderr } = await new Cli(cli.split(" ")).ended;
    expect(code).toBe(70);
    expect(stderr).toContain("worker_stuck");
  },
  TIMEOUT_MS,
);
