/** Runs a program of leases, and compares each answer of the clients with the book. */
import type { Lease } from "leasehold";
import { memoryGuard } from "leasehold/fence";
import { onFailed, onGranted, onRefused } from "./lease-answers.js";
import { LeaseBook } from "./lease-book.js";
import { lookAtLeases } from "./lease-invariants.js";
import {
  type Call,
  GRACE_MS,
  type Held,
  type LeaseState,
  NOTICED_MS,
  PROMPT_MS,
  REASON,
  RESOURCES,
} from "./lease-state.js";
import type { LeaseStep } from "./lease-step.js";
import { type Client, codeOf, NAMESPACE, Site } from "./site.js";

export class LeaseRun implements LeaseState {
  readonly #look = () => lookAtLeases(this);
  readonly calls = new Set<Call>();
  readonly held: Held[] = [];
  readonly #guard = memoryGuard();
  readonly #written = new Map<string, number>();
  /** Calls other than acquires that are not answered. */
  #open = 0;
  #made = 0;

  private constructor(
    readonly site: Site,
    readonly book: LeaseBook,
  ) {}

  static async open(seed: number): Promise<LeaseRun> {
    let book: LeaseBook | undefined;
    const leases = (site: Site) => (book = new LeaseBook(site));
    const site = await Site.open(
      seed,
      ["web-1", "web-2", "web-3"],
      { leases },
      { graceMs: GRACE_MS },
    );
    return new LeaseRun(site, book ?? leases(site));
  }

  async step(step: LeaseStep): Promise<void> {
    switch (step.do) {
      case "pass":
        return this.site.pass(step.ms, this.#look);
      case "acquire":
      case "tryAcquire":
        this.#acquire(step);
        break;
      case "renew":
        this.#renew(step);
        break;
      case "release":
        this.#release(this.#latest(step.lease));
        break;
      case "write":
        this.#write(this.#latest(step.lease));
        break;
      case "revoke":
        this.#revoke(step);
        break;
      case "get":
        this.#get(this.#client(step.client), RESOURCES[step.resource] ?? "first");
        break;
      case "abort":
        this.#abort([...this.calls].at(-1 - step.call));
        break;
      case "close":
        this.#close(this.#client(step.client));
        break;
      case "pause":
        if (this.#client(step.client)?.isRunning) this.#client(step.client)?.pause(step.ms);
        break;
      case "lose":
        this.#client(step.client)?.losing.set(step.of, {
          message: step.message,
          times: step.times,
        });
        break;
    }
    await this.site.flush();
    this.#look();
    this.site.check();
  }

  /** Everything heals and ends; then each resource must be free for a newcomer. */
  async end(): Promise<void> {
    const { site } = this;
    for (const client of site.clients) {
      client.resume();
      client.losing.clear();
    }
    await site.pass(1_000, this.#look);
    for (const call of this.calls) this.#abort(call);
    for (const held of this.held) this.#release(held);
    await site.until("every call is answered", 20_000, this.#look, () => this.#open === 0);
    // The releases that no caller waits for, and what was granted and never used.
    const isFaulty = site.clients.some((client) => client.isFaulty);
    await site.pass(isFaulty ? 20_000 : NOTICED_MS, this.#look);
    // The longest grant, if an operator has revoked it.
    await site.until("every resource is free", 6_000, this.#look, () =>
      this.book.resources.every((resource) => !this.book.current(resource)),
    );
    for (const client of site.clients) {
      for (const resource of client.closing ? [] : RESOURCES) {
        const step = { resource: RESOURCES.indexOf(resource), ttlMs: 300, waitMs: null };
        const at = site.clients.indexOf(client);
        this.#acquire({ ...step, do: "acquire", client: at, autoRenew: true });
      }
      await site.pass(NOTICED_MS, this.#look);
      for (const held of this.held) this.#release(held);
      await site.pass(NOTICED_MS, this.#look);
      this.#close(client);
    }
    const isClosed = () => site.clients.every((client) => client.isClosed);
    await site.until("every client is closed", GRACE_MS + NOTICED_MS, this.#look, isClosed);
    site.expect(this.calls.size === 0, "no call outlives its client");
    site.check();
  }

  #client(at: number): Client | undefined {
    return this.site.clients[at];
  }

  #latest(at: number): Held | undefined {
    return this.held.at(-1 - at);
  }

  #acquire(step: Extract<LeaseStep, { do: "acquire" | "tryAcquire" }>): void {
    const { site } = this;
    const client = this.#client(step.client);
    if (!client?.isRunning) return;
    const { ttlMs, autoRenew } = step;
    const controller = new AbortController();
    const call: Call = {
      client,
      resource: RESOURCES[step.resource] ?? "first",
      isQueued: step.do === "acquire",
      ttlMs,
      waitMs: step.do === "acquire" ? (step.waitMs ?? Infinity) : 0,
      autoRenew,
      sinceMs: site.nowMs,
      number: (this.#made += 1),
      controller,
      isAborted: false,
      eligibleSinceMs: Infinity,
      headSinceMs: Infinity,
    };
    const isClosing = client.closing !== undefined;
    this.calls.add(call);
    const options = { ttlMs, autoRenew, waitMs: call.waitMs, signal: controller.signal };
    const settled = (outcome: string) => {
      this.calls.delete(call);
      site.count(`${step.do}: ${outcome}`);
      const isRight = !isClosing || outcome === "closed";
      site.expect(isRight, () => `a closed client answers ${step.do} with ${outcome}`);
    };
    const asked: Promise<Lease | null> = client.leasehold[step.do](call.resource, options);
    asked.then(
      (lease) => {
        if (lease) {
          const hasWaited = site.nowMs - call.sinceMs > 2 * PROMPT_MS;
          settled(call.isQueued && hasWaited ? "granted after a wait" : "granted");
          onGranted(this, call, lease);
        } else {
          settled("refused");
          onRefused(this, call);
        }
      },
      (error: unknown) => settled(onFailed(this, call, error)),
    );
  }

  #abort(call: Call | undefined): void {
    if (!call?.client.isRunning) return;
    call.isAborted = true;
    call.controller.abort(REASON);
  }

  #renew({ lease: at, ttlMs }: Extract<LeaseStep, { do: "renew" }>): void {
    const { site } = this;
    const held = this.#latest(at);
    if (!held?.client.isRunning) return;
    const { lease, granted, client } = held;
    const wasReleased = held.isReleased;
    const sinceMs = site.nowMs;
    const named = `renewing ${granted.resource} of ${client.name}`;
    this.#ask(
      "renew",
      lease.renew(ttlMs === null ? {} : { ttlMs }),
      () => {
        const isFaulty = client.isFaultySince(sinceMs);
        const isOver = isFaulty || !lease.checkAlive() || granted.ended !== null;
        const isRenewed = granted.confirmedAtMs >= sinceMs - PROMPT_MS;
        site.expect(isRenewed || isOver, `${named} reaches the store`);
        const isAsLong = granted.untilMs >= site.nowMs + (ttlMs ?? 0) - PROMPT_MS;
        site.expect(isAsLong || isOver, `${named} makes it last ${ttlMs} ms`);
        if (lease.checkAlive() && !isFaulty) {
          const leftMs = lease.remainingMs();
          const trustMs = granted.trustedUntilMs - site.nowMs;
          site.expect(leftMs >= trustMs - PROMPT_MS, `${named} leaves ${leftMs} ms of ${trustMs}`);
        }
        return "confirmed";
      },
      (code, error) => {
        switch (code) {
          case "CLOSED":
            site.expect(
              wasReleased || client.closing !== undefined,
              `${named} is refused before its release`,
            );
            return "of a released lease";
          case "LEASE_LOST":
            site.expect(held.reasons.length === 1, `${named} is refused before its loss`);
            return "lost";
          case "INVALID_OPTION":
            site.expect(ttlMs !== null && ttlMs < 100, `${named} has a valid ttlMs`);
            return "invalid";
          case "STORE_UNAVAILABLE":
            site.expect(client.isFaultySince(sinceMs), `${named} fails: ${String(error)}`);
            return "unavailable";
          default:
            return null;
        }
      },
    );
  }

  #release(held: Held | undefined): void {
    const { site } = this;
    if (!held?.client.isRunning) return;
    const { lease, granted, client } = held;
    let was = held.reasons.length > 0 ? "of a lost lease" : "confirmed";
    if (held.isReleased) was = "repeated";
    const sinceMs = site.nowMs;
    const asked = lease.release();
    held.overAtMs = Math.min(held.overAtMs, sinceMs);
    held.releasedAtMs = Math.min(held.releasedAtMs, sinceMs);
    held.isReleased ||= lease.signal.aborted ? held.reasons.length === 0 : true;
    site.expect(!lease.checkAlive(), "a released lease is not alive");
    const answered = () => void (held.answeredAtMs = Math.min(held.answeredAtMs, site.nowMs));
    asked.then(answered, answered);
    const named = `releasing ${granted.resource} of ${client.name}`;
    this.#ask(
      "release",
      asked,
      () => {
        const isOver =
          granted.ended !== null || site.nowMs >= granted.untilMs || was !== "confirmed";
        const late = client.isFaultySince(sinceMs) || held.reasons.length > 0;
        site.expect(isOver || late, `${named} reaches the store`);
        return was;
      },
      (code, error) => {
        if (code !== "STORE_UNAVAILABLE") return null;
        const isLate = was === "repeated" || client.closing !== undefined;
        site.expect(isLate || client.isFaultySince(sinceMs), `${named} fails: ${String(error)}`);
        return "unavailable";
      },
    );
  }

  /** A holder that writes whether or not it may: only the token protects. */
  #write(held: Held | undefined): void {
    if (!held?.client.isRunning) return;
    const { resource, token } = held.granted;
    const last = this.#written.get(resource) ?? 0;
    const written = () => {
      this.#written.set(resource, token);
    };
    this.#ask(
      "write",
      this.#guard.guard(resource, token, written),
      () => {
        this.site.expect(token >= last, `token ${token} of ${resource} is admitted after ${last}`);
        return "admitted";
      },
      (code) => {
        if (code !== "STALE_TOKEN") return null;
        this.site.expect(token < last, `token ${token} of ${resource} is refused after ${last}`);
        return "stale";
      },
    );
  }

  #revoke(step: Extract<LeaseStep, { do: "revoke" }>): void {
    const client = this.#client(step.client);
    if (!client?.isRunning) return;
    const resource = RESOURCES[step.resource] ?? "first";
    const token = this.book.last(resource)?.token ?? 1;
    const expectedToken = step.expect === "last" ? token : token + 1;
    const { free } = step;
    const options = step.expect === "none" ? { free } : { free, expectedToken };
    const { site } = this;
    const sinceMs = site.nowMs;
    this.#ask(
      "revoke",
      client.leasehold.revoke(resource, options),
      ({ status }) => {
        // The book has checked the answer where it was made.
        site.expect(status !== "otherToken" || step.expect !== "none", "revoke expects no token");
        return status;
      },
      (code) => this.#unanswered(client, sinceMs, code),
    );
  }

  #get(client: Client | undefined, resource: string): void {
    if (!client?.isRunning) return;
    const sinceMs = this.site.nowMs;
    this.#ask(
      "get",
      client.leasehold.get(resource),
      (view) => {
        const isIt = view === null || (view.resource === resource && view.namespace === NAMESPACE);
        this.site.expect(isIt, `get of ${resource} answers with ${view?.resource}`);
        return "answered";
      },
      (code) => this.#unanswered(client, sinceMs, code),
    );
  }

  #unanswered(client: Client, sinceMs: number, code: string): string | null {
    if (code === "CLOSED") {
      this.site.expect(client.closing !== undefined, "a client is closed after its close");
      return "closed";
    }
    if (code !== "STORE_UNAVAILABLE") return null;
    this.site.expect(client.isFaultySince(sinceMs), "the store is available");
    return "unavailable";
  }

  #close(client: Client | undefined): void {
    if (!client?.isRunning) return;
    const { site } = this;
    if (client.closing) {
      site.count("close: repeated");
      site.expect(client.leasehold.close() === client.closing, "close returns one promise");
      return;
    }
    const own = this.held.filter((held) => held.client === client && held.lease.checkAlive());
    site.count(own.length > 0 ? "close: with leases" : "close: without leases");
    const sinceMs = site.nowMs;
    client.closing = client.leasehold.close();
    this.#ask(
      "close",
      client.closing,
      () => {
        client.isClosed = true;
        const isHeld = this.held.some((held) => held.client === client && held.lease.checkAlive());
        site.expect(!isHeld, `${client.name} holds nothing once it is closed`);
        if (!client.isFaultySince(sinceMs)) {
          const tookMs = site.nowMs - sinceMs;
          site.expect(
            tookMs <= GRACE_MS + 2 * PROMPT_MS,
            `closing ${client.name} takes ${tookMs} ms`,
          );
          for (const resource of this.book.resources) {
            const current = this.book.current(resource);
            const isOwn = current?.holder === client.name && current.ended === null;
            const isLost = this.held.some(
              ({ granted, reasons }) => granted === current && reasons.length > 0,
            );
            site.expect(!isOwn || isLost, `${client.name} releases ${resource} when it closes`);
          }
        }
        return "done";
      },
      () => null,
    );
  }

  #ask<T>(
    name: string,
    asked: Promise<T>,
    onAnswer: (value: T) => string,
    onError: (code: string, error: unknown) => string | null,
  ): void {
    this.#open += 1;
    const count = (outcome: string) => {
      this.#open -= 1;
      this.site.count(`${name}: ${outcome}`);
    };
    asked.then(
      (value) => count(onAnswer(value)),
      (error: unknown) => {
        const code = codeOf(error);
        const outcome = onError(code, error);
        if (outcome === null) this.site.broken(`${name} fails with ${code}`);
        count(outcome ?? code);
      },
    );
  }
}
