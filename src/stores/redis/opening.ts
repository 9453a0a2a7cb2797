/** From a driver to a store: what must be known of a server before anybody relies on it. */
import type { Env } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import type { LeaseStores } from "../source.js";
import { diagnoseRedis } from "./diagnose.js";
import type { Driver } from "./driver.js";
import { FOREIGN_SCRIPTS, ForeignLeaseStore, type Format } from "./foreign.js";
import { Hints } from "./hints.js";
import { Keys } from "./keys.js";
import { PROBE, SCRIPTS } from "./scripts.js";
import { type Script, Servers } from "./servers.js";
import { RedisLeaseStore } from "./store.js";

const DIAGNOSE_MS = 5_000;
/** Of no resource: names have at least one byte. */
const NOBODY = { namespace: "", resource: "" };

/** @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
export async function openRedis(
  driver: Driver,
  env: Env,
  timeoutMs: number,
  format?: Format,
): Promise<LeaseStores> {
  const servers = new Servers(driver, env);
  const deadlineMs = env.clock.monotonic() + timeoutMs;
  let hints: Hints | undefined;
  const close = async () => {
    hints?.close();
    servers.close();
  };
  try {
    const [first] = driver.seeds;
    const node = driver.seeds.length > 1 && first ? `${first.host}:${first.port}` : undefined;
    if (node !== undefined) await servers.readSlots(deadlineMs);
    else if (isCluster(await infoOf(servers, undefined, deadlineMs))) {
      await servers.readSlots(deadlineMs);
    }
    for (const each of servers.nodes()) {
      check(await infoOf(servers, each, deadlineMs), servers.nameOf(each));
    }
    const keys = new Keys(driver.prefix);
    if (format) {
      const scripts = await load(servers, FOREIGN_SCRIPTS, deadlineMs);
      return storesOf(new ForeignLeaseStore(servers, scripts, format), servers, close);
    }
    const scripts = await load(servers, { ...SCRIPTS, probe: PROBE }, deadlineMs);
    const channel = keys.channel(NOBODY.namespace);
    // Over both, so that the first renewal finds its connection open.
    for (const lane of ["general", "control"] as const) {
      await servers.run(lane, scripts.probe, [keys.record(NOBODY)], [channel], deadlineMs);
    }
    hints = new Hints(servers);
    await hints.open(channel);
    return storesOf(new RedisLeaseStore(servers, scripts, keys, hints), servers, close);
  } catch (error) {
    await close();
    throw error;
  }
}

function storesOf(
  leases: RedisLeaseStore | ForeignLeaseStore,
  servers: Servers,
  close: () => Promise<void>,
): LeaseStores {
  return {
    leases,
    async diagnose() {
      const deadlineMs = servers.env.clock.monotonic() + DIAGNOSE_MS;
      const asked = servers.nodes().map(async (node) => {
        return diagnoseRedis(servers.nameOf(node), await infoOf(servers, node, deadlineMs));
      });
      return (await Promise.all(asked)).flat();
    },
    async close() {
      await leases.close();
      await close();
    },
  };
}

async function load<Name extends string>(
  servers: Servers,
  texts: Readonly<Record<Name, string>>,
  deadlineMs: number,
): Promise<Record<Name, Script>> {
  const [node] = servers.nodes();
  const entries = Object.entries<string>(texts).map(async ([name, text]) => {
    const sha = await servers.tell(node, deadlineMs, "script", "LOAD", text);
    return [name, { text, sha: String(sha) }] as const;
  });
  return Object.fromEntries(await Promise.all(entries)) as Record<Name, Script>;
}

type Info = ReadonlyMap<string, string>;

async function infoOf(
  servers: Servers,
  node: string | undefined,
  deadlineMs: number,
): Promise<Info> {
  const text = String(await servers.tell(node, deadlineMs, "info"));
  const lines = text.split("\r\n").map((line) => line.split(/:(.*)/s) as [string, string]);
  return new Map(lines);
}

function isCluster(info: Info): boolean {
  return info.get("cluster_enabled") === "1";
}

/**
 * Leases have an expiry, long after their end, so that a policy which spares keys without one spares
 * none of them.
 */
function check(info: Info, name: string): void {
  if (info.get("role") === "slave") {
    throw new StoreMisconfiguredError(`${name} is a replica: give the address of its primary`);
  }
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  if (policy === "noeviction") return;
  throw new StoreMisconfiguredError(
    `${name} has maxmemory-policy ${policy}, under which it may delete leases to make room: ` +
      "CONFIG SET maxmemory-policy noeviction, or keep leases in another Redis",
  );
}
