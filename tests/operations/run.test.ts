/** `leasehold run` where things go wrong: real processes, a real server, a real terminal. */
import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { type Fault, openFaultProxy } from "../support/faults/fault-proxy.js";
import {
  Cli,
  checkBuild,
  endAll,
  isAlive,
  leasehold,
  ownEnvironment,
  type Serving,
  serve,
} from "../support/processes/cli.js";
import { Child, temporaryFolder } from "../support/processes/processes.js";

const PATIENT = { timeout: 30_000, interval: 50 };
const MAIN = fileURLToPath(
  new URL("../../packages/leasehold-server/dist/cli/main.js", import.meta.url),
);
const FOREVER = "while :; do sleep 0.1; done";

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterEach(() => endAll(server.cli));
afterAll(() => endAll());

let names = 0;
const fresh = () => `run-${(names += 1)}`;
const run = (
  resource: string,
  options: readonly string[],
  script: string,
  { url }: { url: string } = server,
) => new Cli(["run", resource, "--store", url, ...options, "--", "sh", "-c", script]);
const portOf = ({ url }: Serving) => Number(new URL(url).port);
const gone = (pid: number) =>
  vi.waitFor(async () => expect(await isAlive(pid)).toBe(false), PATIENT);

it("tells the command of its lease in the environment", async () => {
  const name = fresh();
  const script = 'echo "$LEASE_RESOURCE|$LEASE_HOLDER|$LEASE_TOKEN|$LEASE_DEADLINE"; env';
  const beganMs = Date.now();
  const { stdout } = await run(name, ["--ttl", "20s", "--holder", "me"], script).ended;
  const [line = "", ...environment] = stdout.split("\n");
  const [resource, holder, token, deadline] = line.split("|");
  expect({ resource, holder }).toEqual({ resource: name, holder: "me" });
  await using leases = await connect(server.url);
  expect(Number(token)).toBe((await leases.get(name))?.token);
  // A fifth of the ttl is the grace, and that must fit in before the end.
  expect(Number(deadline)).toBeGreaterThan(beganMs);
  expect(Number(deadline)).toBeLessThan(Date.now() + 16_000);
  expect(environment).toContain(`LEASEHOLD_TOKEN=${token}`);
  expect(environment).toContain(`LEASEHOLD_RESOURCE=${name}`);
  expect(environment).toContain("LEASEHOLD_HOLDER=me");
  // The lease id is a secret: every process that has it can release the lease.
  expect(stdout).not.toMatch(/[0-9a-f]{32}/);
});

it("says why the renewals failed for which the lease was lost", async () => {
  const folder = await temporaryFolder();
  const store = `pglite:${join(folder, "keys")}`;
  const create = ["keys", "create", "--name", "n", "--role", "admin", "--store", store];
  const { stdout } = await leasehold(create);
  const key = stdout.trim();
  const own = await serve(store);
  const keyed = { url: own.url.replace("http://", `http://${key}@`) };
  const running = ["--json", "--verbose"].map((output) =>
    run(fresh(), ["--ttl", "2s", output], `echo go; ${FOREVER}`, keyed),
  );
  for (const each of running) await each.until(({ out }) => out.includes("go"));
  await until(expect, "the key is revoked", async () => {
    const response = await fetch(`${own.url}/v1/keys/${key.split("_")[1]}?reason=test`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${key}` },
    });
    // A busy server may refuse, or lose the answer: the key is unknown to it then.
    return response.ok || response.status === 401;
  });
  const [json, verbose] = await Promise.all(running.map(({ ended }) => ended));
  expect([json?.code, verbose?.code]).toEqual([76, 76]);
  const why = /expired \(its renewals failed: .*\bkey\b.*\)/;
  const stopping = json?.stderr.split("\n").find((line) => line.includes('"stopping"'));
  expect(JSON.parse(stopping ?? "")).toMatchObject({ message: expect.stringMatching(why) });
  expect(verbose?.stderr).toMatch(why);
  expect(verbose?.stderr).toMatch(/LeaseLostError: [^]*Error: .*\bkey\b/);
});

it("goes on when the store was unavailable for less than the ttl", async () => {
  const own = await serve();
  const end = join(await temporaryFolder(), "end");
  const wait = `echo go; while [ ! -e "${end}" ]; do sleep 0.05; done; echo still`;
  const running = run(fresh(), ["--ttl", "6s"], wait, own);
  await running.until(({ out }) => out.includes("go"));
  await own.cli.stop();
  // The renewal that falls due meanwhile has no answer.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  own.cli.cont();
  const leases = await connect(own.url);
  const [before] = (await leases.list()).items;
  await vi.waitFor(async () => {
    const [now] = (await leases.list()).items;
    expect(now).toMatchObject({ state: "live", grantId: before?.grantId });
    expect(now?.renewedAt).not.toBe(before?.renewedAt);
  }, PATIENT);
  await leases.close();
  await writeFile(end, "");
  expect(await running.ended).toMatchObject({ code: 0, stdout: "go\nstill" });
});

it("has stopped a command that ignores SIGTERM before the store may grant anew", async () => {
  const name = fresh();
  const script = `trap "" TERM; echo $$; ${FOREVER}`;
  const running = run(name, ["--ttl", "2s", "--grace", "300ms"], script);
  const pid = await running.until(({ out }) => Number(out[0]));
  await using leases = await connect(server.url);
  // Frozen, so that it does not renew; what stops the command then is its own time, or the guard.
  await running.stop();
  await vi.waitFor(async () => expect((await leases.get(name))?.state).toBe("expired"), PATIENT);
  running.cont();
  expect(await running.ended).toMatchObject({ code: 76 });
  expect(await isAlive(pid)).toBe(false);
});

const STALLED = [
  ["run", "its lease is revoked"],
  ["run", "its store is unavailable"],
  ["elect", "its lease is revoked"],
  ["elect", "its store is unavailable"],
];
it.each(STALLED)("%s stops a command that has filled its output when %s", async (command, loss) => {
  const own = await serve();
  const file = join(await temporaryFolder(), "pid");
  const script = `echo $$ >"${file}"; yes & exec yes >&2`;
  const words = [command, "r", "--store", own.url, "--ttl", "2s", "--", "sh", "-c", script];
  // The reader of both outputs does not read.
  const line = ['"$@" 2>&1 | sleep 1000', "sh", process.execPath, MAIN, ...words];
  const stalled = new Child("sh", ["-c", ...line], { env: ownEnvironment() });
  const pid = await vi.waitFor(async () => {
    const found = Number(await readFile(file, "utf8"));
    expect(found).toBeGreaterThan(0);
    return found;
  }, PATIENT);
  await using leases = await connect(own.url);
  if (loss.includes("revoked")) await leases.revoke("r", { free: "now" });
  else await own.cli.stop();
  await gone(pid);
  await stalled.endGroup();
  await own.cli.end("SIGKILL");
});

it("has stopped the command of a process that is itself stopped", async () => {
  const running = run(fresh(), ["--ttl", "2s"], `trap "" TERM; echo $$; ${FOREVER}`);
  const pid = await running.until(({ out }) => Number(out[0]));
  await running.stop();
  await gone(pid);
  running.cont();
  expect(await running.ended).toMatchObject({ code: 76 });
});

it("sends SIGTERM once to a command whose lease is lost", async () => {
  const name = fresh();
  const script = `trap "echo asked" TERM; echo go; ${FOREVER}`;
  const running = run(name, ["--ttl", "4s", "--grace", "2s"], script);
  await running.until(({ out }) => out.includes("go"));
  await using leases = await connect(server.url);
  await leases.revoke(name, { free: "now" });
  expect(await running.ended).toMatchObject({ code: 76, stdout: "go\nasked" });
});

it("exits with 69 when the store is unavailable, and waits for it as long as --wait says", async () => {
  const own = await serve();
  const { port } = new URL(own.url);
  await own.cli.end("SIGTERM");
  const args = ["run", "r", "--store", own.url, "--wait"];
  const refused = await leasehold([...args, "0", "--", "true"]);
  expect(refused).toMatchObject({ code: 69, stdout: "" });
  expect(refused.stderr).toMatch(/^leasehold: STORE_UNAVAILABLE: /m);
  const waiting = new Cli([...args, "1m", "--", "echo", "now"]);
  // It may be asked before or after: either way it is waited for.
  const back = new Cli(["serve", "--port", port, "--store", "memory:back"]);
  expect(await waiting.ended).toMatchObject({ code: 0, stdout: "now" });
  expect((await back.end("SIGTERM")).code).toBe(0);
});

it("ends what the command has left behind before it releases the lease", async () => {
  const name = fresh();
  // The shell ends at once; its two children, one of them deaf to SIGTERM, are orphans then.
  const deaf = `trap "" TERM; echo $$; ${FOREVER}`;
  const script = `sh -c 'echo $$; ${FOREVER}' & sh -c '${deaf}' & sleep 0.3; exit 3`;
  const running = run(name, ["--ttl", "5s", "--grace", "500ms"], script);
  const { code, stdout } = await running.ended;
  expect(code).toBe(3);
  const pids = stdout.split("\n").map(Number);
  expect(pids).toHaveLength(2);
  for (const pid of pids) expect(await isAlive(pid)).toBe(false);
  await using leases = await connect(server.url);
  expect((await leases.get(name))?.state).toBe("released");
});

it("leaves no process behind when it is killed with -9 after its command has ended", async () => {
  const deaf = `trap "" TERM; echo $$; ${FOREVER}`;
  const running = run(fresh(), ["--ttl", "20s", "--grace", "4s"], `sh -c '${deaf}' & sleep 0.3`);
  const pid = await running.until(({ out }) => Number(out[0]));
  // Between SIGTERM and SIGKILL of what was left.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  await running.end("SIGKILL");
  await gone(pid);
});

const script = spawnSync("script", ["--version"], { encoding: "utf8" });
const noTerminal = script.stdout?.includes("util-linux") ? "" : "there is no script of util-linux";
if (noTerminal) console.warn(`skipped: Ctrl-C in a terminal: ${noTerminal}`);

it.skipIf(noTerminal)(
  "passes Ctrl-C of a terminal on, once, and ends as the command does",
  async () => {
    const trap = `trap 'echo interrupted; exit 5' INT; echo go; ${FOREVER}`;
    const words = ["run", fresh(), "--store", server.url, "--", "sh", "-c", `"$TRAP"`];
    const line = `exec "${process.execPath}" "${MAIN}" ${words.join(" ")}`;
    const terminal = new Child("script", ["-qec", line, "/dev/null"], {
      env: { ...ownEnvironment(), TRAP: trap, SHELL: "/bin/sh" },
    });
    await terminal.until(({ out }) => out.some((text) => text.includes("go")));
    terminal.say("\x03");
    const { code, stdout } = await terminal.ended;
    expect(code).toBe(5);
    expect(stdout.match(/interrupted/g)).toHaveLength(1);
  },
);

it("counts the time that it takes to connect towards --wait", async () => {
  const resource = fresh();
  const owner = await connect(server.url);
  await owner.acquire(resource);
  const proxy = await openFaultProxy(portOf(server));
  let delayedMs = 0;
  const late: Fault = async ({ forward, answer }) => {
    const sinceMs = performance.now();
    await delay(1_000);
    const response = await forward();
    // Before the client can have the answer.
    delayedMs = performance.now() - sinceMs;
    answer(response);
  };
  proxy.next(late);
  const waiting = run(resource, ["--wait", "5s"], "true", { url: proxy.url });
  const queued = await vi.waitFor(() => {
    const asked = proxy.seen.filter(({ path }) => path === "/v1/leases/acquire");
    const requests = asked.flatMap(({ body }) => JSON.parse(body) as { queueMs?: number }[]);
    const found = requests.find(({ queueMs }) => queueMs !== undefined);
    if (!found) throw new Error("not yet");
    return found;
  }, PATIENT);
  // It keeps its place in the queue no longer than it waits.
  expect(queued.queueMs).toBeLessThanOrEqual(5_000 - delayedMs);
  await waiting.end("SIGTERM");
  await proxy.close();
  await owner.close();
});
