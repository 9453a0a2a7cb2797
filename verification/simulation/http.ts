/**
 * fetch over the simulated network: one of the servers is asked, as a load balancer would choose it.
 * An answer comes back whole; a stream of events is refused, so that clients live by asking again.
 */

import { LeaseholdError } from "leasehold";
import { invariant, sleep } from "leasehold/internal";
import { http } from "leasehold/stores/http";
import { createApp, type ServerApp } from "leasehold-server";
import type { Machine, Process } from "./machine.js";
import { type Network, REFUSED } from "./network.js";
import type { Opened } from "./remote.js";
import type { World } from "./world.js";

interface Whole {
  readonly status: number;
  readonly headers: [string, string][];
  readonly text: string;
}

/** Worlds live fast. */
const LIMITS = { shortestTtlMs: 100, lateMs: null };
/** The app that runs on a host. */
const apps = new WeakMap<Process, ServerApp>();

/** Runs a server on the host, over its own way to the database. */
export function serve(host: Process, { leases, tasks }: Opened): void {
  apps.set(
    host,
    createApp({
      leases,
      tasks,
      env: host.env,
      auth: "none",
      version: "0",
      limits: LIMITS,
    }),
  );
}

/** The stores as the real HTTP client reaches them; opened again until a server answers. */
export function overHttp(world: World, network: Network, servers: readonly Machine[]) {
  return async (host: Process): Promise<Opened> => {
    const fetch = simulatedFetch(world, network, host, servers);
    for (;;) {
      try {
        return await http({ url: "http://leasehold", fetch }).open(host.env);
      } catch (error) {
        if (!(error instanceof LeaseholdError)) throw error;
        await sleep(host.env.clock, 100);
      }
    }
  };
}

function simulatedFetch(
  world: World,
  network: Network,
  client: Process,
  servers: readonly Machine[],
): typeof globalThis.fetch {
  return async (input, init) => {
    const url = input instanceof Request ? input.url : input.toString();
    const { signal, ...rest } = init ?? {};
    const server = world.pick(servers as [Machine]);
    if (url.includes("/v1/events")) throw refused();
    const call = network.call(client, server, async (): Promise<Whole> => {
      const app = server.process && apps.get(server.process);
      invariant(app, "a server that runs has an app");
      const response = await app.fetch(new Request(url, rest));
      return {
        status: response.status,
        headers: [...response.headers],
        text: await response.text(),
      };
    });
    const answer = await new Promise<Whole | typeof REFUSED>((resolve, reject) => {
      const abort = () => reject(new DOMException("aborted", "AbortError"));
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort, { once: true });
      void call.then((value) => {
        signal?.removeEventListener("abort", abort);
        resolve(value);
      });
    });
    if (answer === REFUSED) throw refused();
    const { status, headers, text } = answer;
    return new Response(status === 204 ? null : text, { status, headers });
  };
}

/** What Node's fetch throws if no server listens. */
function refused(): TypeError {
  const cause = Object.assign(new Error("connect ECONNREFUSED"), {
    code: "ECONNREFUSED",
    syscall: "connect",
  });
  return new TypeError("fetch failed", { cause });
}
