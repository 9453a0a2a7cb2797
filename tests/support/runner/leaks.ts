/**
 * Fails a test file that leaves something behind: a timer that would hold a process open, a socket or
 * a server (also one that would not, as the idle connections of a pool), a child process, a watcher of
 * files, a handler of a signal, timers of a mock in place of the system's. Runs in every test file, after its last hook.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, vi } from "vitest";
import { noteImports } from "./imports.js";

/** Node's own list of what libuv keeps; reports carry more than is needed here. */
interface Handle {
  readonly type: string;
  readonly address: string;
  readonly pid?: number;
  readonly filename?: string;
  readonly localEndpoint?: Endpoint | null;
  readonly remoteEndpoint?: Endpoint | null;
}
interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Kept-alive sockets of fetch end by themselves after 4 s, timers of PGlite after 10. Set for files that leak on purpose. */
const SETTLED_WITHIN_MS = Number(process.env["LEAKS_SETTLED_WITHIN_MS"] ?? 12_000);

// What the runner itself uses. The file's own modules are imported later.
/** The system's. Files share a worker, and when the runner restores the spies of one, that may be the timer of a mock. */
const own = Symbol.for("leasehold.setTimeout");
const systemSetTimeout = (Reflect.get(globalThis, own) ?? setTimeout) as typeof setTimeout;
Object.assign(globalThis, { [own]: systemSetTimeout, setTimeout: systemSetTimeout });

noteImports();
const timersBefore = timers();
const listenersBefore = listeners();
const handlesBefore: ReadonlySet<string> = new Set(handles().map(({ address }) => address));

// Hooks end in reverse order: this one is the last.
afterAll(async () => {
  const isMocked = globalThis.setTimeout !== systemSetTimeout;
  // The next file would wait for ever.
  vi.useRealTimers();
  if (isMocked) throw new Error("left behind: timers of a mock: call vi.useRealTimers()");
  const giveUpAtMs = performance.now() + SETTLED_WITHIN_MS;
  let left = leftBehind();
  for (let pauseMs = 1; left.length > 0 && performance.now() < giveUpAtMs; pauseMs *= 2) {
    await sleep(Math.min(pauseMs, 200));
    left = leftBehind();
  }
  if (left.length > 0) throw new Error(`left behind: ${left.join(", ")}`);
}, SETTLED_WITHIN_MS + 10_000);

function leftBehind(): string[] {
  const more = timers() - timersBefore;
  const added = listeners() - listenersBefore;
  return [
    ...(added > 0 ? [`handlers of signals: ${added}`] : []),
    ...(more > 0 ? [`timers that hold the process open: ${more}`] : []),
    ...handles()
      .filter(({ address }) => !handlesBefore.has(address))
      .map(described),
  ];
}

function timers(): number {
  return process.getActiveResourcesInfo().filter((type) => type === "Timeout").length;
}

function listeners(): number {
  const signals = process.eventNames().filter((name) => String(name).startsWith("SIG"));
  return signals.reduce((sum, name) => sum + process.listenerCount(name), 0);
}

function handles(): Handle[] {
  const { libuv } = process.report.getReport() as unknown as { libuv: readonly Handle[] };
  return libuv.filter(({ type }) => /^(tcp|udp|process|fs_event|fs_poll)$/.test(type));
}

function described({ type, pid, filename, localEndpoint, remoteEndpoint }: Handle): string {
  if (pid !== undefined) return `process ${pid}`;
  if (filename !== undefined) return `watcher of ${filename}`;
  const at = (end: Endpoint | null | undefined) => (end ? `${end.host}:${end.port}` : "no address");
  return remoteEndpoint
    ? `${type} from ${at(localEndpoint)} to ${at(remoteEndpoint)}`
    : `${type} at ${at(localEndpoint)}`;
}
