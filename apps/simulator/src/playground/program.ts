/**
 * The program of each process: a candidate that writes to the protected resource while it leads. Everything
 * except this file and the simulated network is the real code.
 *
 *   lead() ──▶ waiting ──▶ leading: ┌─▶ lease alive? ─▶ prepare ─▶ write with the token ─▶ pause ─┐
 *                                   └─────────────────────────────────────────────────────────────┘
 *
 * No program can check its lease and send a write in one step. A process that is paused between the two
 * sends the write late, however careful the lease is. Only the resource can refuse it, by its token.
 */

import {
  type Elector,
  LeaseholdError,
  type LeaseStore,
  type LeaseView,
  type LostReason,
  StaleTokenError,
  StoreUnavailableError,
  type Term,
} from "leasehold";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  electorOver,
  type Failed,
  type HeldLease,
  instant,
  type Key,
  LeaseClient,
  type RenewOutcome,
  sleep,
  trustFrom,
  trustLeftMs,
} from "leasehold/internal";
import type { Process } from "leasehold-verification/simulation/machine";
import { REFUSED } from "leasehold-verification/simulation/network";
import { remoteLeases } from "leasehold-verification/simulation/remote";
import type { Role } from "./frame.js";
import type { Ledger } from "./ledger.js";
import type { Resource, WriteAnswer, WriteMessage } from "./resource.js";
import type { NodeName } from "./settings.js";
import { NAME, NAMESPACE, type Stage } from "./stage.js";
import { duration } from "./words.js";

/** How long a write takes to prepare after the lease check. */
const PREPARE_MS = 20;
/** How much earlier holders stop: the default of the real code. */
const MARGIN_MS = 10;
/** Longer than a write in progress can take: its timeout is shorter. */
const GRACE_MS = 10_000;

/** The lease that a process believes to hold. */
export interface Belief {
  readonly token: number;
  readonly trustMs: number;
  readonly ttlMs: number;
}

export class Program {
  readonly holder: string;
  readonly #stage: Stage;
  readonly #host: Process;
  readonly #ledger: Ledger;
  readonly #resource: Resource;
  readonly #client: LeaseClient;
  #elector: Elector;
  #stop = new AbortController();
  #settingsAreOld = false;
  #lease: HeldLease | undefined;
  /** Granted, but the term has not started. */
  #granted: { readonly token: number; readonly trust: ReturnType<typeof trustFrom> } | undefined;
  #ttlMs: number;
  #working = 0;
  /** The lease was checked for a write that is not sent yet. */
  #isChecked = false;
  #onChecked: (() => void) | undefined;

  constructor(stage: Stage, host: Process, holder: string, ledger: Ledger, resource: Resource) {
    this.#stage = stage;
    this.#host = host;
    this.holder = holder;
    this.#ledger = ledger;
    this.#resource = resource;
    this.#ttlMs = stage.settings.ttlMs;
    const options = { env: host.env, namespace: NAMESPACE, holder };
    this.#client = new LeaseClient(this.#port(), options, { close: undefined });
    this.#elector = this.#newElector();
  }

  /** Runs until the process ends. */
  async run(): Promise<void> {
    for (;;) {
      await this.#elector.lead((term) => this.#lead(term), { signal: this.#stop.signal });
      this.#settingsAreOld = false;
      this.#stop = new AbortController();
      this.#elector = this.#newElector();
    }
  }

  /** Campaigns again with the current settings; a leader does so after its term. */
  useSettings(): void {
    this.#settingsAreOld = true;
    if (this.#elector.state === "waiting") this.#stop.abort();
  }

  resign(successor: string | undefined): void {
    const resigning = this.#elector.resign(successor === undefined ? {} : { successor });
    resigning.catch((error: unknown) => this.#tolerate(error));
  }

  /** Calls back once during the next write, between the lease check and the send. */
  onceChecked(callback: () => void): void {
    this.#onChecked = callback;
  }

  get isChecked(): boolean {
    return this.#isChecked;
  }

  get role(): Role {
    const { state } = this.#elector;
    if (state === "leading") return "leader";
    if (state === "stopping") return "stopping";
    return this.#granted ? "starting" : "candidate";
  }

  /** Has no side effects: it does not call checkAlive(), which would settle a loss. */
  get belief(): Belief | null {
    const ttlMs = this.#ttlMs;
    if (this.#lease?.isHeld) {
      return { token: this.#lease.token, trustMs: this.#lease.remainingMs(), ttlMs };
    }
    if (!this.#granted) return null;
    const { token, trust } = this.#granted;
    return { token, trustMs: Math.max(0, trustLeftMs(trust, this.#host.env.clock)), ttlMs };
  }

  /** The id of the grant that it believes to hold. */
  get leaseId(): string | undefined {
    return this.#lease?.isHeld ? this.#lease.leaseId : undefined;
  }

  #newElector(): Elector {
    const { ttlMs, renewEveryMs: renewIntervalMs, driftRatioPercent } = this.#stage.settings;
    const driftRatio = driftRatioPercent / 100;
    return electorOver(this.#client, NAME, {
      ttlMs,
      renewIntervalMs,
      driftRatio,
      marginMs: MARGIN_MS,
      graceMs: GRACE_MS,
    });
  }

  async #lead(term: Term): Promise<void> {
    const { tally, invariants } = this.#stage;
    const { clock } = this.#host.env;
    // A term is a lease apart from how it ends.
    const lease = term as HeldLease;
    const { token } = lease;
    this.#lease = lease;
    this.#granted = undefined;
    this.#working += 1;
    if (this.#working > 1) {
      invariants.broken("noOverlap", `${this.#name} works for two terms at once`, null);
    }
    const vacantMs = tally.began(this.#name, token);
    const gap = vacantMs === 0 ? "while" : `${duration(vacantMs ?? 0)} after`;
    const after =
      vacantMs === null
        ? ""
        : `, ${gap} the last leader ${vacantMs === 0 ? "still works" : "stopped"}`;
    this.#log("lead", `${this.#name} leads with token ${token}${after}.`, true);
    lease.onLost((reason) => this.#onLost(token, reason));
    try {
      while (!term.signal.aborted && term.checkAlive()) {
        await this.#write();
        await sleep(clock, this.#stage.settings.writeEveryMs, { signal: term.signal }).catch(
          () => {},
        );
      }
    } finally {
      this.#working -= 1;
      tally.stopped(this.#name, token);
      if (this.#settingsAreOld) this.#stop.abort();
    }
  }

  /** One write. The term's signal stops the work, so errors are ignored here. */
  async #write(): Promise<void> {
    try {
      const write = async (_: AbortSignal, token: number) => {
        // The lease was checked just now. Nothing checks it again before the send.
        this.#isChecked = true;
        const onChecked = this.#onChecked;
        this.#onChecked = undefined;
        onChecked?.();
        await sleep(this.#host.env.clock, PREPARE_MS);
        this.#isChecked = false;
        const answer = await this.#send(token);
        if (answer && !answer.accepted) throw new StaleTokenError(NAME, token, answer.lastToken);
      };
      await this.#elector.runIfLeader(write, { leaderWrite: true });
    } catch (error) {
      this.#tolerate(error);
    }
  }

  /** @returns undefined if no answer arrived in time */
  async #send(token: number): Promise<WriteAnswer | undefined> {
    const name = this.#name;
    if (this.#lease && this.#lease.remainingMs() <= 0) {
      const text = `${name} sends its write with token ${token}. It checked its lease before the pause and has not checked it since.`;
      this.#log("write", text, true);
    }
    const request: WriteMessage = { operation: "write", token };
    const call = this.#stage.network.call<WriteAnswer>(
      this.#host,
      this.#resource.machine,
      () => this.#resource.write(name, token),
      { request, answer: (answer): WriteMessage => ({ ...request, answer }) },
    );
    const answer = await this.#within(call);
    if (answer === "late") this.#log("message", `${name} got no answer to its write.`);
    return answer === "late" || answer === REFUSED ? undefined : answer;
  }

  #onLost(token: number, reason: LostReason): void {
    const name = this.#name;
    this.#stage.tally.stopped(name, token);
    const why: Record<LostReason, string> = {
      expired: "by its own clocks the lease has expired without a confirmed renewal",
      taken: "it learned that a newer leader has written",
      revoked: "the store reported that an operator revoked it",
      gone: "the store no longer knows it",
      inconsistent: "the store contradicted itself",
    };
    this.#log(
      "lost",
      `${name} no longer trusts token ${token}: ${why[reason]}. It steps down.`,
      true,
    );
  }

  /** The store over the simulated network. */
  #port(): LeaseStore {
    const { network } = this.#stage;
    const remote = remoteLeases(
      ...([network, this.#host, this.#ledger.machine, () => this.#ledger.store] as const),
    );
    return {
      ...remote,
      acquire: (requests, options) => this.#acquire(remote, requests, options),
      renew: async (requests, options) => {
        const outcomes = await remote.renew(requests, this.#bounded(options));
        for (const outcome of outcomes) this.#onRenewal(outcome);
        return outcomes;
      },
      release: (requests, options) => remote.release(requests, this.#bounded(options)),
      get: (keys) => this.#get(remote, keys),
    };
  }

  async #acquire(
    remote: LeaseStore,
    requests: readonly AcquireRequest[],
    options: CallOptions | undefined,
  ): Promise<AcquireOutcome[]> {
    const sent = instant(this.#host.env.clock);
    const outcomes = await remote.acquire(requests, this.#bounded(options));
    for (const [index, outcome] of outcomes.entries()) {
      const request = requests[index];
      if (request?.resource !== NAME) continue;
      if (outcome.status === "failed") this.#onUnanswered(outcome);
      this.#granted = undefined;
      if (outcome.status !== "acquired") continue;
      this.#ttlMs = request.ttlMs;
      const driftRatio = this.#stage.settings.driftRatioPercent / 100;
      const terms = { driftRatio, marginMs: MARGIN_MS };
      this.#granted = {
        token: outcome.token,
        trust: trustFrom(sent, outcome.remainingMs, terms),
      };
    }
    return outcomes;
  }

  async #get(remote: LeaseStore, keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    const answer = await this.#within(remote.get(keys));
    if (answer !== "late") return answer;
    throw new StoreUnavailableError("no answer", { outcome: "none" });
  }

  #onUnanswered({ applied }: Failed): void {
    const text =
      applied === "maybe"
        ? `${this.#name} got no answer to its request for the lease and cannot know whether it was granted. It retries.`
        : `${this.#name} could not connect to the store. It retries.`;
    this.#stage.log.addRarely(this.#name, "wait", text, true);
  }

  #onRenewal(outcome: RenewOutcome): void {
    const { belief } = this;
    if (outcome.status !== "failed" || !belief) return;
    const why = outcome.applied === "maybe" ? "got no answer to its renewal" : "could not renew";
    const text = `${this.#name} ${why}. It trusts its lease for another ${duration(belief.trustMs)} and retries.`;
    this.#stage.log.addRarely(this.#name, "renew", text);
  }

  #bounded({ timeoutMs = Infinity, ...rest }: CallOptions = {}): CallOptions {
    return { ...rest, timeoutMs: Math.min(timeoutMs, this.#stage.settings.answerTimeoutMs) };
  }

  async #within<T>(call: Promise<T>): Promise<T | "late"> {
    const settled = new AbortController();
    const { answerTimeoutMs } = this.#stage.settings;
    const late = sleep(this.#host.env.clock, answerTimeoutMs, { signal: settled.signal });
    try {
      return await Promise.race([call, late.then(() => "late" as const)]);
    } finally {
      settled.abort();
    }
  }

  /** Ignores expected errors. @throws any other error */
  #tolerate(error: unknown): void {
    if (!(error instanceof LeaseholdError)) throw error;
  }

  get #name(): NodeName {
    return this.#host.name as NodeName;
  }

  #log(kind: Parameters<Stage["log"]["add"]>[1], text: string, isStep = false): void {
    this.#stage.log.add(this.#name, kind, text, isStep);
  }
}
