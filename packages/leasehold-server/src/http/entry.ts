/**
 * How a request of a caller enters, whichever way it is served then:
 *
 *   who calls? ─▶ from where? ─▶ what its tenant occupies ─▶ what this instance does ─▶ may its role do that? ─▶ work
 *
 * The order matters. A caller counts for its tenant before its role is checked, so that no caller sends requests that it
 * may not for free, and a demand does not count for the instance while it waits for what bounds its tenant.
 */
import type { Clock } from "leasehold";
import { checkMay, type Need } from "./auth/access.js";
import type { Authenticator } from "./auth/authenticate.js";
import { checkBootstrap } from "./auth/bootstrap.js";
import type { Caller } from "./auth/caller.js";
import { type ClientCertificates, keyByCertificate } from "./auth/certificates.js";
import { type AddressList, clientAddress } from "./auth/client-address.js";
import type { Networks } from "./auth/networks.js";
import { checkScope } from "./auth/scope.js";
import type { Demand } from "./limits/admission.js";
import type { Admitted, TenantAdmission } from "./limits/tenant-admission.js";
import { tooMany } from "./problems.js";
import type { Answer, Connection } from "./request.js";
import type { Urgency } from "./route-rules.js";

export const OVERLOADED = tooMany("capacity", "this instance is overloaded", 1_000);
/** A key is not checked again for a body that has arrived by then, at the cost of a read where its record is old. */
const PROMPT_BODY_MS = 1_000;
const METRICS = "GET /metrics";

export interface EntryOptions {
  readonly clock: Clock;
  readonly authenticator: Pick<Authenticator, "callerOf" | "callerOfKey" | "checkAgain">;
  /** Undefined: connections have no certificates of clients, or these say nothing. */
  readonly clientCertificates?: ClientCertificates | undefined;
  readonly trustedProxies?: AddressList | undefined;
  readonly networks?: Pick<Networks, "check"> | undefined;
  readonly tenantAdmission: Pick<TenantAdmission, "enter" | "delayRefusal">;
}

/** A request, and the route that will serve it. */
export interface Arriving {
  readonly request: Request;
  /** Null: none, or one of all methods. */
  readonly route: string | null;
  readonly need: Need | null | undefined;
  readonly urgency: Urgency;
  /** What the host of the app passes beside the request. */
  readonly host: unknown;
  /** Undefined: it is no demand. */
  readonly demand: Demand | undefined;
}

export class Entry {
  readonly #options: EntryOptions;

  constructor(options: EntryOptions) {
    this.#options = options;
  }

  /**
   * Runs the work of an admitted request.
   * @param known receives the caller, also of a request that is then refused
   * @throws UNAUTHENTICATED, FORBIDDEN, TOO_MANY_REQUESTS, OVERLOADED, and what the work throws
   */
  async run<T>(
    arriving: Arriving,
    known: (caller: Caller) => void,
    work: (entered: Entered) => Promise<T>,
  ): Promise<T> {
    const { authenticator, tenantAdmission, clock } = this.#options;
    const { clientCertificates, trustedProxies, networks } = this.#options;
    const { request, route, need, urgency, host, demand } = arriving;
    // Operator actions never use a cached key: a revoked key must not work for them.
    const keeps = urgency === "keeps" && (need === "hold" || need === "work");
    // The metrics show an outage of the store: they must be readable during one, and come from this process.
    const isScrape = route === METRICS;
    const acceptsStale = keeps || isScrape;
    const address = clientAddress(request.headers, addressOf(host), trustedProxies);
    const keyId =
      clientCertificates &&
      keyByCertificate(clientCertificates, certificateOf(host), request, clock);
    const caller = await (keyId
      ? authenticator.callerOfKey(keyId, acceptsStale, address)
      : authenticator.callerOf(request, acceptsStale, address));
    known(caller);
    // Refused as those without a valid key: a stolen key that is used elsewhere takes no room of its tenant.
    networks?.check(caller, address, route);
    const checkedMs = clock.monotonic();
    noteCallerAt(host);
    const { headers } = request;
    const admitted = await tenantAdmission.enter({ caller, urgency, isScrape, headers });
    const admission = { caller, acceptsStale, checkedMs, host, demand, admitted };
    const entered = new Entered(this.#options, admission);
    try {
      await entered.resume();
      checkBootstrap(caller, route);
      checkMay(caller, need);
      checkScope(caller, need, route);
      return await work(entered);
    } finally {
      admitted.leave(answerOf(host));
    }
  }
}

interface Admission {
  readonly caller: Caller;
  readonly acceptsStale: boolean;
  readonly checkedMs: number;
  readonly host: unknown;
  readonly demand: Demand | undefined;
  readonly admitted: Admitted;
}

/** A request that was admitted. */
export class Entered {
  readonly #options: EntryOptions;
  readonly #admission: Admission;

  constructor(options: EntryOptions, admission: Admission) {
    this.#options = options;
    this.#admission = admission;
  }

  /** Rejects if the caller's key has ended since it was checked, a while ago. */
  async checkCaller(): Promise<void> {
    const { caller, acceptsStale, checkedMs } = this.#admission;
    const { clock, authenticator } = this.#options;
    if (clock.monotonic() - checkedMs < PROMPT_BODY_MS) return;
    await authenticator.checkAgain(caller, acceptsStale);
  }

  /**
   * Runs what waits for the body. Resolves when the body may be parsed, in the same turn of the event loop.
   * @throws OVERLOADED
   */
  async arriving<T>(read: () => Promise<T>): Promise<T> {
    const { demand, admitted, host } = this.#admission;
    demand?.pause();
    noteBodyAt(host);
    const body = await read();
    await admitted.arrive();
    await this.resume();
    return body;
  }

  /** Runs the wait for a scan. It and the scan do not count as a demand. */
  async scanning<T>(wait: () => Promise<T>): Promise<T> {
    const { caller, demand } = this.#admission;
    demand?.pause();
    try {
      return await wait();
    } catch (error) {
      await this.#options.tenantAdmission.delayRefusal(caller);
      throw error;
    }
  }

  /** To be awaited with the number of items of a body that is an array, before they are checked and served. */
  begin(items: number): Promise<void> {
    return this.#admission.admitted.begin(items);
  }

  /** Runs work that takes as long as its sender chooses, and charges its tenant. */
  measured<T>(work: () => Promise<T>): Promise<T> {
    return this.#admission.admitted.measured(work);
  }

  /** @throws OVERLOADED */
  async resume(): Promise<void> {
    const { caller, demand } = this.#admission;
    if (!demand || demand.resume(caller.keyId === null ? null : caller.namespace)) return;
    await this.#options.tenantAdmission.delayRefusal(caller);
    throw OVERLOADED;
  }
}

/** Hosts may pass other things than a connection. */
function addressOf(host: unknown): string | undefined {
  const { remoteAddress } = (host ?? {}) as { remoteAddress?: unknown };
  return typeof remoteAddress === "string" ? remoteAddress : undefined;
}

function certificateOf(host: unknown): Connection["certificate"] {
  return ((host ?? {}) as Pick<Connection, "certificate">).certificate;
}

function answerOf(host: unknown): Answer | undefined {
  const { answer } = (host ?? {}) as { answer?: Answer };
  return typeof answer?.onEnd === "function" ? answer : undefined;
}

function noteCallerAt(host: unknown): void {
  const { noteCaller } = (host ?? {}) as Pick<Connection, "noteCaller">;
  if (typeof noteCaller === "function") noteCaller();
}

/** Tells the host that the body is about to be read: its caller is known, if it needs one. */
export function noteBodyAt(host: unknown): void {
  const { onBody } = (host ?? {}) as Pick<Connection, "onBody">;
  if (typeof onBody === "function") onBody();
}
