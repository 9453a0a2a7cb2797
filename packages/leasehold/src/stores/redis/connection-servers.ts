/**
 * Chooses the server that runs a script: the only one, or the cluster node that owns the slot of its keys.
 *
 *   MOVED  another node owns the slot now: updates the map, and sends it there
 *   ASK    the slot is moving to another node: sends it there, only this time
 *   else   a node fails or knows no slots: reads the map again, from any node that responds
 *
 * MOVED and ASK mean that the node did not run the script, so sending it again repeats nothing. It is
 * sent only while its caller waits. (The cluster client of ioredis would send it without a waiting
 * caller, and after a lost connection too.)
 */
import type { Env } from "../../env/index.js";
import { type Argument, Connection } from "./connection.js";
import type { Address } from "./connection-address.js";
import type { Driver, RedisConnection } from "./connection-driver.js";
import { isRefusal } from "./failures.js";
import { slotOf } from "./keys.js";

/** Renewals and releases use separate connections, so that many acquires do not delay them. */
export const LANES = ["general", "control"] as const;
export type Lane = (typeof LANES)[number];

export interface Script {
  readonly text: string;
  /** The script's SHA-1. */
  readonly sha: string;
}

const MOST_REDIRECTIONS = 5;
const REFRESH_TIMEOUT_MS = 2_000;

export class Servers {
  readonly #connections = new Map<string, Connection>();
  /** Node addresses by slot; null for a single server. */
  #slots: Map<number, string> | null = null;
  #refreshing: Promise<void> | undefined;
  readonly #onLeft = new Set<() => void>();

  constructor(
    readonly driver: Driver,
    readonly env: Env,
  ) {}

  get isCluster(): boolean {
    return this.#slots !== null;
  }

  /** Returns the group of a key. All keys of one script call must share a group. */
  groupOf(key: string): number {
    return this.#slots ? slotOf(key) : 0;
  }

  /** All nodes with keys; `undefined` is the single server. */
  nodes(): readonly (string | undefined)[] {
    return this.#slots ? [...new Set(this.#slots.values())] : [undefined];
  }

  /** For error messages. */
  nameOf(node: string | undefined): string {
    return node === undefined ? this.driver.name : `Redis at ${node}`;
  }

  /** Sends one command to one of {@link nodes}. */
  commandTo(node: string | undefined, deadlineMs: number, command: string, ...args: Argument[]) {
    return this.#to(node, "general").call(deadlineMs, command, ...args);
  }

  /** Sends one command about one key. Rejects as {@link Connection.call}. */
  command(deadlineMs: number, command: string, key: string, ...args: Argument[]) {
    return this.#routed("general", key, async (connection, asking) => {
      const client = await connection.open(deadlineMs);
      return connection.send(client, deadlineMs, (open) => {
        if (asking) ask(open);
        return open.call(command, key, ...args);
      });
    });
  }

  /** Opens a separate connection to any server. The caller must detect its end. */
  separate(name: string, onOpen: (client: RedisConnection) => void): Connection {
    return new Connection(
      name,
      this.env,
      () => {
        const nodes = this.nodes();
        const node = nodes[Math.floor(this.env.random.float() * nodes.length)];
        return this.driver.open(node === undefined ? undefined : addressOf(node));
      },
      onOpen,
    );
  }

  /** Calls the listener when a server turned out to take no writes, or none yet. @returns the end of that */
  onLeft(listener: () => void): () => void {
    this.#onLeft.add(listener);
    return () => void this.#onLeft.delete(listener);
  }

  /**
   * Switches to cluster mode and stores the slot map.
   * @param doubted a node that has failed, which is asked last: one without the others answers too
   */
  async readSlots(deadlineMs: number, doubted?: string): Promise<void> {
    const known = new Set([...this.nodes(), ...this.driver.seeds.map(nameOf)]);
    if (doubted !== undefined && known.delete(doubted)) known.add(doubted);
    let failure: unknown;
    for (const node of known) {
      try {
        const answer = await this.#to(node, "general").call(deadlineMs, "cluster", "slots");
        // Without an address, the driver opens the first of its seeds.
        const [seed] = this.driver.seeds;
        const slots = slotsOf(answer, node ?? (seed && nameOf(seed)));
        // Updates the map in place, because calls in flight read it again.
        if (!this.#slots) this.#slots = slots;
        else for (const [slot, owner] of slots) this.#slots.set(slot, owner);
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Runs a script whose keys share a group. Rejects as {@link Connection.call}. */
  run(
    lane: Lane,
    { sha, text }: Script,
    keys: readonly string[],
    args: readonly Argument[],
    deadlineMs: number,
  ): Promise<unknown> {
    return this.#routed(lane, keys[0] ?? "", async (connection, asking) => {
      const client = await connection.open(deadlineMs);
      const send = (command: string, script: string) =>
        connection.send(client, deadlineMs, (open) => {
          if (asking) ask(open);
          return open.call(command, script, keys.length, ...keys, ...args);
        });
      try {
        return await send("evalsha", sha);
      } catch (error) {
        // The server restarted, or the node has not loaded the script yet.
        if (!replyOf(error).startsWith("NOSCRIPT")) throw error;
        return send("eval", text);
      }
    });
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }

  /** Calls the server of a key, and follows redirections to other servers. */
  async #routed<T>(
    lane: Lane,
    key: string,
    call: (connection: Connection, asking: boolean) => Promise<T>,
  ): Promise<T> {
    const slots = this.#slots;
    if (!slots) return call(this.#to(undefined, lane), false);
    const slot = slotOf(key);
    let asked: string | undefined;
    for (let redirections = 0; ; redirections++) {
      const node = asked ?? slots.get(slot);
      try {
        return await call(this.#to(node, lane), asked !== undefined);
      } catch (error) {
        const redirection = redirectionOf(error, node);
        if (!redirection) this.#refresh(node);
        if (!redirection || redirections === MOST_REDIRECTIONS) throw error;
        if (redirection.kind === "MOVED") slots.set(slot, redirection.node);
        asked = redirection.kind === "ASK" ? redirection.node : undefined;
      }
    }
  }

  #to(node: string | undefined, lane: Lane): Connection {
    const key = `${lane} ${node ?? ""}`;
    let connection = this.#connections.get(key);
    if (!connection) {
      const { driver, env } = this;
      const address = node === undefined ? undefined : addressOf(node);
      const make = () => driver.open(address);
      connection = new Connection(this.nameOf(node), env, make, undefined, () => this.#leave(node));
      this.#connections.set(key, connection);
    }
    return connection;
  }

  /** A reply on one connection holds for all connections to that server. */
  #leave(node: string | undefined): void {
    for (const lane of LANES) this.#connections.get(`${lane} ${node ?? ""}`)?.leave();
    for (const listener of this.#onLeft) listener();
    if (this.#slots) this.#refresh(node);
  }

  #refresh(failed: string | undefined): void {
    const deadlineMs = this.env.clock.monotonic() + REFRESH_TIMEOUT_MS;
    this.#refreshing ??= this.readSlots(deadlineMs, failed)
      .catch(() => {})
      .finally(() => {
        this.#refreshing = undefined;
      });
  }
}

/** Applies only to the next command on the connection. */
function ask(client: RedisConnection): void {
  client.call("asking").catch(() => {});
}

/** Returns the server's error reply, if that is why a call failed. */
function replyOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return isRefusal(cause) ? cause.message : "";
}

/**
 * @param from the node that sent the reply: an empty host means its own
 */
function redirectionOf(error: unknown, from: string | undefined) {
  const [, kind, host, port] = /^(MOVED|ASK) \d+ (.*):(\d+)$/.exec(replyOf(error)) ?? [];
  if (kind === undefined) return null;
  return { kind, node: `${host || hostOf(from)}:${port}` };
}

/**
 * Parses the reply of CLUSTER SLOTS: `[first, last, [host, port, ...] of the primary, ...]` for each
 * range.
 */
function slotsOf(answer: unknown, from: string | undefined): Map<number, string> {
  const slots = new Map<number, string>();
  for (const [first, last, [host, port]] of answer as [number, number, [string | null, number]][]) {
    const node = `${host || hostOf(from)}:${port}`;
    for (let slot = first; slot <= last; slot++) slots.set(slot, node);
  }
  return slots;
}

function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
function addressOf(node: string): Address {
  return { host: hostOf(node), port: Number(node.slice(node.lastIndexOf(":") + 1)) };
}
function hostOf(node = ""): string {
  return node.slice(0, node.lastIndexOf(":"));
}
