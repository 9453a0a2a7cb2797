/** What the tests of faults need: a database, who holds leases in it, and ways between them that fail. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { newLeaseId, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import { connect, type Leasehold } from "../../../packages/leasehold/src/index.js";
import type {
  AcquireOptions,
  Lease,
  LeaseView,
} from "../../../packages/leasehold/src/lease/index.js";
import { until } from "../../../packages/leasehold/src/testing/waiting.js";
import { compile } from "../processes/compile.js";
import type { HolderSettings, Said } from "../processes/holder.js";
import { Child, type ChildOptions, endAll } from "../processes/processes.js";
import { makeRegisters, readRegisters, write } from "../worlds/registers.js";
import { openTcpProxy, type TcpProxy } from "./tcp-proxy.js";

/** For leases that are to expire. */
export const TTL_MS = 2_000;
/** For leases that must not expire while the machine is slow. */
export const LONG_MS = 60_000;
/** How long after the ttl a waiter may take over, on a slow machine. */
const TAKEOVER_MS = 10_000;

const closing: (() => Promise<unknown>)[] = [];
/** Closes it when the test ends. */
export function later<T extends { close(): Promise<unknown> }>(opened: T): T {
  closing.unshift(() => opened.close());
  return opened;
}

let program: Awaited<ReturnType<typeof compile>> | undefined;
/** For files with holders: compiles their program. */
export function compileHolder(): void {
  beforeAll(async () => {
    program = await compile(new URL("../processes/holder.ts", import.meta.url));
  });
  afterAll(() => program?.remove());
}

/** For files with holders: compiles their program, and ends all that a test has started. */
export function holdersForTests(): void {
  compileHolder();
  afterEach(async () => {
    await endAll();
    for (const close of closing.splice(0)) await close();
  });
}

/** A client whose close() does not wait for what it holds. */
export function openLeases(url: string): Promise<Leasehold> {
  return connect(url, { graceMs: 0, connectTimeoutMs: 60_000 });
}

/** One lease in a database with registers, and a client that reads the lease and competes for it. */
export class Site {
  /** Another one after nextResource(). */
  resource = newLeaseId(systemRandom);

  private constructor(
    /** Where the leases are kept. */
    readonly url: string,
    /** Where the registers are. */
    readonly protectedUrl: string,
    readonly leases: Leasehold,
    readonly database: pg.Client,
    readonly takeoverMs: number,
  ) {}

  /** @param protectedUrl of a database; default: the leases are in one */
  static async open(url: string, protectedUrl = url, takeoverMs = TAKEOVER_MS): Promise<Site> {
    const leases = await openLeases(url);
    const database = new pg.Client({ connectionString: protectedUrl });
    // The server may be killed while it looks.
    database.on("error", () => {});
    await database.connect();
    await makeRegisters(database);
    return new Site(url, protectedUrl, leases, database, takeoverMs);
  }

  async close(): Promise<void> {
    await this.leases.close();
    await this.database.end();
  }

  nextResource(): void {
    this.resource = newLeaseId(systemRandom);
  }

  /** A way to the database that may fail. */
  async openProxy(): Promise<{ proxy: TcpProxy; url: string }> {
    const url = new URL(this.url);
    const proxy = later(await openTcpProxy({ port: Number(url.port) }));
    url.port = `${proxy.port}`;
    return { proxy, url: url.href };
  }

  async view(): Promise<LeaseView> {
    const view = await this.leases.get(this.resource);
    if (!view) throw new Error("there is such a lease");
    return view;
  }

  /** Resolves when a renewal has been stored that came after this call. */
  async renewed(): Promise<void> {
    const before = (await this.view()).renewedAt;
    await until(expect, "a renewal", async () => (await this.view()).renewedAt !== before);
  }

  /** Writes to the registers; see there. */
  write(token: number): Promise<string> {
    return write(this.database, this.resource, token);
  }

  /** Acquires the lease as its next holder, and writes. The lease stays held. */
  async succeed(): Promise<Lease> {
    const waitMs = TTL_MS + this.takeoverMs;
    const next = await this.leases.acquire(this.resource, { ttlMs: LONG_MS, waitMs });
    expect(await this.write(next.token)).toBe("written");
    return next;
  }

  /** The fence has kept the late write of this token out; without one, it stands. */
  async expectOnlyUnfencedSuffers(late: number, next: Lease): Promise<void> {
    expect(next.token).toBeGreaterThan(late);
    expect(await readRegisters(this.database, this.resource)).toEqual({
      fenced: next.token,
      unfenced: late,
    });
  }

  /** The lease is this one's, and alive. */
  async expectHeldBy({ token }: Lease): Promise<void> {
    expect(await this.view()).toMatchObject({ token, state: "live" });
  }
}

/** A process that holds the lease of a site. */
export class Holder extends Child {
  constructor(site: Site, options: AcquireOptions, url = site.url, child: ChildOptions = {}) {
    if (!program) throw new Error("call compileHolder() first");
    const { resource, protectedUrl } = site;
    const settings: HolderSettings = { url, protectedUrl, resource, options };
    super(process.execPath, [program.path, JSON.stringify(settings)], child);
  }

  /** Resolves with the first line that reports this. */
  reported(name: keyof Said): Promise<Said> {
    return this.until(({ out }) =>
      out.map((line) => JSON.parse(line) as Said).find((said) => said[name] !== undefined),
    );
  }

  /** When it has the lease. */
  async token(): Promise<number> {
    return (await this.reported("token")).token!;
  }
}
