/**
 * What happens to a fleet, as an operator would see it.
 *
 *   all start ──▶ tasks are done ──▶ the leading generator is killed: the other one leads
 *     ──▶ that one is deployed anew: it hands over at once
 *     ──▶ a server is killed: tasks go on, the alert fires ──▶ it is back: the alert ends
 *     ──▶ the other server is deployed anew: it refuses to be ready, then exits with 0 ──▶ all end
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Child } from "../../tests/support/processes/processes.js";
import type { Service } from "./compose.js";
import type { Fleet } from "./fleet.js";

const LOOK_MS = 200;
/** The alert waits a minute, and so many seconds pass between two scrapes. */
const PATIENCE_MS = 240_000;

export interface Step {
  readonly what: string;
  readonly afterMs: number;
}

export async function* story(fleet: Fleet, signal: AbortSignal): AsyncGenerator<Step> {
  let beginMs = performance.now();
  const step = (what: string): Step => {
    const nowMs = performance.now();
    const afterMs = Math.round(nowMs - beginMs);
    beginMs = nowMs;
    return { what, afterMs };
  };
  const serviceOf = (name: string) => fleet.services.find((one) => one.name === name) as Service;
  const until = async <T>(what: string, find: () => Promise<T | null | undefined | false>) => {
    const untilMs = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = await find().catch(() => null);
      if (found) return found;
      if (performance.now() > untilMs)
        throw new Error(`${what}: not within ${PATIENCE_MS / 1_000} s`);
      await delay(LOOK_MS, undefined, { signal });
    }
  };

  for (const service of fleet.services) {
    await fleet.start(service);
    yield step(service.isJob ? `${service.name} is done` : `${service.name} is started`);
  }

  const create = ["leasehold", "keys", "create", "--name", "rehearsal", "--role", "viewer"];
  const key = (await fleet.run("keys", ...create)).trim();
  const ask = async (server: string, path: string) => {
    const headers = { authorization: `Bearer ${key}` };
    return fetch(`http://${fleet.addressOf(server)}:4040${path}`, { headers });
  };
  const json = async (server: string, path: string) =>
    (await (await ask(server, path)).json()) as { done: number; holder: string | null };
  const prometheus = async (path: string) => {
    const answer = await fetch(`http://${fleet.addressOf("prometheus")}:9090/api/v1/${path}`);
    return ((await answer.json()) as { data: Record<string, unknown[]> }).data;
  };
  const doneOn = async (server: string) => (await json(server, "/api/tasks/counts")).done;
  const firing = async () => {
    const { alerts = [] } = await prometheus("alerts");
    return (alerts as { state: string; labels: { alertname: string } }[])
      .filter(({ state }) => state === "firing")
      .map(({ labels }) => labels.alertname);
  };
  const leader = async () => (await json("server-2", "/api/generator")).holder;

  for (const server of ["server-1", "server-2"]) {
    await until(`${server} is ready`, async () => (await ask(server, "/readyz")).ok);
  }
  yield step("both servers are ready");
  await until("all are scraped", async () => {
    const { result = [] } = await prometheus("query?query=up==1");
    return result.length === 6;
  });
  yield step("Prometheus has metrics of all six programs");
  await until("tasks are done", async () => (await doneOn("server-1")) > 0);
  const first = await until("a generator leads", leader);
  yield step(`${first} leads and generates tasks, and workers do them`);

  fleet.processOf(first).kill("SIGKILL");
  const next = await until("the other generator leads", async () => {
    const holder = await leader();
    return holder !== first && holder;
  });
  yield step(`${first} was killed, and ${next} leads`);
  await fleet.start(serviceOf(first));
  await fleet.processOf(first).until(({ err }) => err.find((line) => line.includes("ready")));

  const [left, taking] = [fleet.processOf(next), fleet.processOf(first)];
  const { code: handedOver } = await left.end("SIGTERM");
  if (handedOver !== 0) throw new Error(`${next} exits with ${handedOver}`);
  const gapMs = (await writtenAt(taking, "generating")) - (await writtenAt(left, "draining"));
  yield step(`${next} is deployed anew, and ${first} leads ${gapMs} ms after the SIGTERM`);
  await fleet.start(serviceOf(next));

  fleet.processOf("server-1").kill("SIGKILL");
  const before = await doneOn("server-2");
  await until("tasks go on", async () => (await doneOn("server-2")) > before);
  yield step("server-1 was killed, and tasks are done as before");
  await until("the alert fires", async () => (await firing()).includes("LeaseholdServerDown"));
  yield step("the alert LeaseholdServerDown fires");
  await fleet.start(serviceOf("server-1"));
  await until("the alert ends", async () => !(await firing()).includes("LeaseholdServerDown"));
  yield step("server-1 is back, and the alert has ended");

  const leaving = fleet.processOf("server-2");
  leaving.kill("SIGTERM");
  await until("server-2 refuses", async () => (await ask("server-2", "/readyz")).status === 503);
  yield step("server-2 is deployed anew: it refuses to be ready, and serves on");
  const { code } = await leaving.ended;
  if (code !== 0) throw new Error(`server-2 exits with ${code}`);
  yield step("server-2 has exited with 0");
  await fleet.start(serviceOf("server-2"));
  await until("server-2 is ready", async () => (await ask("server-2", "/readyz")).ok);
  yield step("the new server-2 is ready");

  const programs = fleet.services.filter(({ isJob, image }) => !isJob && image === "leasehold");
  for (const { name } of programs) {
    const ended = await fleet.processOf(name).end("SIGTERM");
    if (ended.code !== 0) throw new Error(`${name} exits with ${ended.code}`);
  }
  yield step(`all ${programs.length} programs have exited with 0`);
}

/** When a program logged the message, in milliseconds since 1970. */
function writtenAt(program: Child, message: string): Promise<number> {
  return program.until(({ err }) => {
    const line = err.find((line) => line.includes(`"msg":"${message}"`));
    return line && Date.parse((JSON.parse(line) as { time: string }).time);
  }) as Promise<number>;
}
