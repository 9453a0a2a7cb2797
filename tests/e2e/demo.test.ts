/** `leasehold demo` without a terminal: it works, survives what it does to itself, and leaves nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { Cli, checkBuild, endAll, isAlive, leasehold } from "../support/processes/cli.js";

let folder: string;
beforeAll(async () => {
  checkBuild();
  folder = await mkdtemp(join(tmpdir(), "leasehold-demo-"));
});
afterEach(() => endAll());
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A line of the output, by the grammar in packages/leasehold-server/src/cli/demo/events.ts. */
interface Line {
  readonly event: string;
  readonly values: Readonly<Record<string, string>>;
}

function parse(text: string): Line {
  const [, event = "", rest = ""] =
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ([a-z.]+)((?: [a-zA-Z]+=\S.*)?)$/.exec(text) ?? [];
  expect(event, text).not.toBe("");
  const pairs = [...rest.matchAll(/ ([a-zA-Z]+)=("(?:[^"\\]|\\.)*"|[^\s"=]+)/g)];
  expect(pairs.map(([pair]) => pair).join("")).toBe(rest);
  return {
    event,
    values: Object.fromEntries(
      pairs.map(([, key = "", value = ""]) => [
        key,
        value.startsWith('"') ? (JSON.parse(value) as string) : value,
      ]),
    ),
  };
}

const events = (cli: Cli, event: string) =>
  cli.out.map(parse).filter((line) => line.event === event);
const has =
  (event: string, such: (values: Line["values"]) => boolean = () => true) =>
  (cli: Cli) =>
    events(cli, event).some(({ values }) => such(values));
const doneOf = (cli: Cli) => Number(events(cli, "tasks").at(-1)?.values["done"]);
const pidsOf = (cli: Cli) =>
  events(cli, "child.started").map(({ values }) => Number(values["pid"]));
const allGone = (pids: readonly number[]) =>
  vi.waitFor(
    async () => expect((await Promise.all(pids.map(isAlive))).filter(Boolean)).toEqual([]),
    { timeout: 20_000, interval: 100 },
  );

function demo(...args: string[]): Cli {
  const store = args.includes("--store") ? [] : ["--store", `pglite:${join(folder, "store")}`];
  return new Cli(["demo", "--plain", "--port", "0", ...store, "--ttl", "1500ms", ...args]);
}

it("does tasks, hands over, refuses, drains, and goes on where it stopped", {
  timeout: 240_000,
}, async () => {
  const first = demo("--rate", "3", "--crash-rate", "0.15", "--latency-rate", "0.3");
  await first.until(has("demo.ready", ({ url = "" }) => url.startsWith("http://127.0.0.1:")));
  await first.until(has("generator.leads", ({ holder = "" }) => holder.startsWith("generator-")));
  await first.until(has("task.completed"));
  await first.until(
    has(
      "child.exited",
      ({ said, restartMs }) => said === "simulated crash" && Number(restartMs) > 0,
    ),
  );
  await first.until(
    has("task.claimed", ({ from, token }) => from !== undefined && Number(token) > 0),
  );
  await first.until(has("task.refused", ({ operation }) => operation === "complete"));

  // Every task is completed once, by the holder of its newest token.
  const tokens = new Map<string, number>();
  for (const { event, values } of first.out.map(parse)) {
    const [id = "", token] = [values["id"], Number(values["token"])];
    if (event === "task.claimed") {
      expect(token).toBeGreaterThan(tokens.get(id) ?? 0);
      tokens.set(id, token);
    } else if (event === "task.completed") {
      expect(token).toBe(tokens.get(id));
      tokens.set(id, Number.POSITIVE_INFINITY);
    }
  }

  const stderr = `leasehold: creating a PGlite database in ${join(folder, "store")}`;
  expect(await first.end("SIGINT")).toMatchObject({ code: 0, stderr });
  expect(events(first, "demo.stopped")).toHaveLength(1);
  await allGone(pidsOf(first));

  const second = demo("--crash-rate", "0", "--latency-rate", "0");
  await second.until(() => events(second, "tasks").length > 0);
  expect(Number(events(second, "tasks")[0]?.values["done"])).toBeGreaterThanOrEqual(doneOf(first));
  await second.until(has("task.completed"));
  const children = pidsOf(second);
  expect(children).toHaveLength(5);
  // A killed parent cannot signal its children, so they must notice its end themselves.
  await second.end("SIGKILL");
  await allGone(children);
});

it("drains also when the terminal's Ctrl-C reaches the children first", {
  timeout: 120_000,
}, async () => {
  const cli = demo("--crash-rate", "0", "--latency-rate", "0", "--store", "memory:demo");
  await cli.until(has("task.claimed"));
  const children = pidsOf(cli);
  for (const pid of children) process.kill(pid, "SIGINT");
  process.kill(cli.pid, "SIGINT");
  expect(await cli.ended).toMatchObject({ code: 0, stderr: "" });
  await allGone(children);
  expect(Number(events(cli, "tasks").at(-1)?.values["running"])).toBe(0);
});

it("says which port is taken", { timeout: 60_000 }, async () => {
  const first = demo("--store", "memory:port");
  const url = await first.until(() => events(first, "demo.ready")[0]?.values["url"]);
  const { port } = new URL(url);
  const second = await leasehold(["demo", "--plain", "--store", "memory:port"], {
    env: { PORT: port },
  });
  expect(second).toMatchObject({ code: 64, stdout: "" });
  expect(second.stderr).toContain(`port ${port} of 127.0.0.1 is in use`);
});

describePostgres("on a PostgreSQL server", () => {
  it("ends also when the database hangs", { timeout: 120_000 }, async () => {
    const { url, drop } = await freshDatabase();
    const target = new URL(url);
    let hangs = false;
    const sockets = new Set<Socket>();
    const gate = createServer((near) => {
      const far = connect(Number(target.port || 5432), target.hostname);
      for (const socket of [near, far]) {
        sockets.add(socket);
        socket.on("error", () => {});
      }
      near.on("data", (data) => hangs || far.write(data));
      far.on("data", (data) => hangs || near.write(data));
      near.on("close", () => far.destroy());
    });
    await new Promise<void>((resolve) => gate.listen(0, "127.0.0.1", resolve));
    const gated = new URL(url);
    gated.hostname = "127.0.0.1";
    gated.port = String((gate.address() as AddressInfo).port);
    const cli = new Cli(["demo", "--plain", "--port", "0", "--crash-rate", "0"], {
      env: { LEASEHOLD_STORE: gated.href },
    });
    try {
      await cli.until(has("task.claimed"));
      hangs = true;
      // The time limit of the test is far above that of the demo.
      const { code, stderr } = await cli.end("SIGINT");
      expect([0, 1], stderr).toContain(code);
      await allGone(pidsOf(cli));
    } finally {
      for (const socket of sockets) socket.destroy();
      gate.close();
    }
    await drop();
  });

  it("does the same", { timeout: 120_000 }, async () => {
    const { url, drop } = await freshDatabase();
    const args = ["demo", "--plain", "--port", "0", "--crash-rate", "0"];
    const cli = new Cli(args, { env: { LEASEHOLD_STORE: url } });
    const store = await cli.until(() => events(cli, "demo.ready")[0]?.values["store"]);
    const { password } = new URL(url);
    if (password) expect(store).not.toContain(`:${password}@`);
    await cli.until(has("task.completed"));
    // A busy machine connects late, which the command says.
    const stderr = expect.stringMatching(/^(leasehold: no connection to .*)?$/);
    expect(await cli.end("SIGINT")).toMatchObject({ code: 0, stderr });
    await allGone(pidsOf(cli));
    await drop();
  });
});
