/** Runs a program of an election, and compares what its candidates and an observer find with the book. */
import type { Term } from "leasehold";
import {
  Candidate,
  type ElectionState,
  FAILURE,
  GRACE_MS,
  HANDOVER_MS,
  lookAtElection,
  NAME,
  OBSERVED_MS,
  PROMPT_MS,
  STOPPING_MS,
  TTL_MS,
  type Working,
  WRITING_MS,
} from "./election-invariants.js";
import type { ElectionStep } from "./election-step.js";
import { type Granted, LeaseBook } from "./lease-book.js";
import { type Client, codeOf, Site } from "./site.js";

export class ElectionRun implements ElectionState {
  readonly #look = () => lookAtElection(this);
  readonly candidates: readonly Candidate[];
  readonly observing = new AbortController();
  observed: { readonly leader: string | null; readonly token: number | null } | undefined;
  /** The terms that a named successor had to follow. */
  #open = 0;
  leader: { readonly granted: Granted | undefined; sinceMs: number } = {
    granted: undefined,
    sinceMs: 0,
  };

  private constructor(
    readonly site: Site,
    readonly book: LeaseBook,
  ) {
    this.candidates = site.clients.slice(0, 2).map((client) => new Candidate(client));
  }

  static async open(seed: number): Promise<ElectionRun> {
    let book: LeaseBook | undefined;
    const leases = (site: Site) => (book = new LeaseBook(site));
    const names = ["node-1", "node-2", "observer"];
    const site = await Site.open(seed, names, { leases }, { graceMs: GRACE_MS });
    const run = new ElectionRun(site, book ?? leases(site));
    void run.#observe();
    return run;
  }

  async step(step: ElectionStep): Promise<void> {
    const { site } = this;
    if (step.do === "pass") return site.pass(step.ms, this.#look);
    const candidate = this.candidates[step.client];
    if (candidate?.client.isRunning) this.#do(candidate, step);
    await site.flush();
    this.#look();
    site.check();
  }

  /** Everything heals; then one leads if any campaigns, and nothing is held when all have left. */
  async end(): Promise<void> {
    const { site, book } = this;
    for (const { client } of this.candidates) {
      client.resume();
      client.losing.clear();
    }
    const standing = this.candidates.filter(({ client }) => !client.closing);
    const look = () => {
      this.#look();
      for (const candidate of standing) {
        if (!candidate.lead && candidate.elector.state === "idle") this.#campaign(candidate, 0);
      }
    };
    if (standing.length > 0) {
      const leads = () => standing.some(({ elector }) => elector.term !== undefined);
      await site.until("one leads", 30_000, look, leads);
      await site.pass(OBSERVED_MS, this.#look);
    }
    for (const candidate of standing) candidate.leaving.abort();
    const isOver = () => this.candidates.every(({ lead }) => !lead) && this.#open === 0;
    await site.until("all have left", 30_000, this.#look, isOver);
    for (const { client } of this.candidates) this.#close(client);
    const isClosed = () => this.candidates.every(({ client }) => client.isClosed);
    await site.until("every client is closed", 20_000, this.#look, isClosed);
    this.observing.abort();
    await site.until(
      "the name is free",
      3 * TTL_MS + 20_000,
      this.#look,
      () => !book.current(NAME),
    );
  }

  #do(candidate: Candidate, step: Exclude<ElectionStep, { do: "pass" }>): void {
    const { site } = this;
    const { client } = candidate;
    switch (step.do) {
      case "campaign":
        if (!client.closing) this.#campaign(candidate, step.stoppingMs);
        return;
      case "leave":
        if (candidate.lead) candidate.leaving.abort();
        return;
      case "end":
        return candidate.working?.end(step.how);
      case "runIfLeader":
        return this.#runIfLeader(candidate);
      case "resign":
        return this.#resign(candidate, step.successor);
      case "revoke": {
        if (client.closing) return;
        const asked = client.leasehold.revoke(NAME, { free: step.free });
        return this.#ask(
          asked.then(() => {}),
          () => {},
          (code) => code === "STORE_UNAVAILABLE",
        );
      }
      case "close":
        return this.#close(client);
      case "pause":
        return client.pause(step.ms);
      case "lose":
        client.losing.set(step.of, { message: step.message, times: step.times });
        site.count("lose");
    }
  }

  #campaign(candidate: Candidate, stoppingMs: number): void {
    const { site } = this;
    const { client, elector } = candidate;
    const { signal } = candidate.leaving;
    const isIdle = elector.state === "idle";
    const asked = elector.lead((term) => this.#work(candidate, term), { signal });
    if (candidate.lead || !isIdle) {
      const refused = (code: string) => {
        site.count("campaign: refused");
        return code === "INVALID_OPTION";
      };
      return this.#ask(asked, () => site.broken("a candidate campaigns twice"), refused);
    }
    candidate.stoppingMs = stoppingMs;
    const state: string = elector.state;
    site.expect(state === "waiting", "a candidate waits once it campaigns");
    candidate.lead = asked;
    const isOver = () => {
      candidate.lead = undefined;
      candidate.threwAtMs = Infinity;
      candidate.leaving = new AbortController();
      candidate.readySinceMs = Infinity;
    };
    const hasLeft = () => signal.aborted || client.closing !== undefined;
    asked.then(
      () => {
        site.expect(hasLeft(), `${client.name} leaves without being asked`);
        site.expect(!candidate.working, `${client.name} leaves before its work has ended`);
        site.expect(
          elector.state === "idle",
          `${client.name} is ${elector.state} after it has left`,
        );
        site.count("lead: over");
        isOver();
      },
      (error: unknown) => {
        const code = error === FAILURE ? "threw" : codeOf(error);
        if (code === "threw") site.count("lead: threw");
        else if (code === "STILL_RUNNING") {
          site.count("lead: still running");
          const isOverdue = candidate.stoppingMs > GRACE_MS && hasLeft();
          site.expect(
            isOverdue || !client.isRunning || client.isFaulty,
            `${client.name} is overdue`,
          );
          site.expect(elector.state !== "idle", "overdue work is not idle");
        } else site.broken(`leading ${client.name} fails with ${code}`);
        isOver();
      },
    );
  }

  #work(candidate: Candidate, term: Term): Promise<void> {
    const { site, book } = this;
    const { client } = candidate;
    const named = `the work of ${client.name}`;
    site.count("term: begins");
    site.expect(candidate.working === undefined, `${named} overlaps itself`);
    site.expect(client.isRunning, `${named} begins while it is paused`);
    site.expect(term.checkAlive(), `${named} begins without a lease`);
    site.expect(!candidate.leaving.signal.aborted, `${named} begins after it has left`);
    const granted = [...book.grants.values()].find(
      ({ resource, token }) => resource === NAME && token === term.token,
    );
    if (!granted) return Promise.reject(new Error(`${named} has no grant`));
    site.expect(granted.holder === client.name, `${named} has the term of ${granted.holder}`);
    const announced = this.#announced();
    const isNamed = !announced || announced.successor === client.name;
    const isSince = announced && granted.grantedAtMs > announced.sinceMs + PROMPT_MS;
    site.expect(isNamed || !isSince, `${named} begins in place of the named successor`);
    return new Promise((resolve, reject) => {
      const working: Working = {
        term,
        granted,
        reasons: [],
        askedAtMs: Infinity,
        end: (how) => {
          if (candidate.working !== working) return;
          candidate.working = undefined;
          const what = { return: "returns", throw: "throws", stop: "stops" } as const;
          site.count(`term: ${what[how]}`);
          if (how === "throw") candidate.threwAtMs = term.signal.aborted ? Infinity : site.nowMs;
          if (how === "throw") reject(FAILURE);
          else resolve();
        },
      };
      candidate.working = working;
      term.onLost((reason) => {
        working.reasons.push(reason);
        site.count(`lost: ${reason}`);
      });
      term.signal.addEventListener("abort", () => {
        working.askedAtMs = site.nowMs;
        if (candidate.stoppingMs > GRACE_MS) site.count("term: is overdue");
        const stop = () => working.end("stop");
        client.process.env.clock.timer(candidate.stoppingMs, stop);
      });
    });
  }

  /** The handover that is announced now, by the book. */
  #announced(): { readonly successor: string; readonly sinceMs: number } | undefined {
    const announcement = this.book.current(`${NAME}/successor`);
    if (!announcement || announcement.ended !== null) return undefined;
    // There are two candidates: one names the other.
    const successor = this.#other(announcement.holder);
    return { successor, sinceMs: announcement.grantedAtMs };
  }

  #other(name: string): string {
    return name === "node-1" ? "node-2" : "node-1";
  }

  #runIfLeader(candidate: Candidate): void {
    const { site } = this;
    const { client, elector, working } = candidate;
    const { term, state } = elector;
    const sinceMs = site.nowMs;
    let hasBegun = false;
    const over = () => {
      candidate.writing = undefined;
    };
    const work = (signal: AbortSignal, token: number) => {
      hasBegun = true;
      candidate.writing = working?.granted;
      site.expect(token === term?.token, "work of a leader gets its token");
      return new Promise<void>((resolve) => {
        const stop = () => client.process.env.clock.timer(STOPPING_MS, resolve);
        signal.addEventListener("abort", stop, { once: true });
        client.process.env.clock.timer(WRITING_MS, resolve);
      }).finally(over);
    };
    const asked = elector.runIfLeader(work);
    site.expect(hasBegun === (state === "leading" && term !== undefined), "a leader may work");
    this.#ask(
      asked,
      () => {
        site.count("runIfLeader: done");
        site.expect(hasBegun && working?.reasons.length === 0, "the term lasted");
      },
      (code) => {
        if (code === "NOT_LEADER") {
          site.count("runIfLeader: not leader");
          return !hasBegun;
        }
        site.count("runIfLeader: lost");
        const isLost = working !== undefined && working.reasons.length > 0;
        return code === "LEASE_LOST" && isLost && site.nowMs >= sinceMs;
      },
    );
  }

  #resign(candidate: Candidate, toSuccessor: boolean): void {
    const { site, book } = this;
    const { client, elector, working } = candidate;
    const successor = this.#other(client.name);
    const other = this.candidates.find((one) => one.client.name === successor);
    const isLeading = elector.term !== undefined;
    const sinceMs = site.nowMs;
    const isQueued = book.positions(NAME, successor, sinceMs - PROMPT_MS) > 0;
    const stands = other?.lead !== undefined && !other.leaving.signal.aborted;
    const isWaiting = isQueued && other?.client.isRunning === true && stands;
    const asked = elector.resign(toSuccessor ? { successor } : {});
    this.#ask(
      asked,
      () => {
        if (!isLeading) return;
        const isOver = !working || candidate.working !== working;
        site.expect(isOver, `${client.name} has resigned, and its work runs on`);
        const leader = book.current(NAME);
        const isHandedOver = leader?.holder === successor;
        site.count(
          toSuccessor
            ? isHandedOver
              ? "resign: to a successor"
              : "resign: in vain"
            : "resign: done",
        );
        const announced = book.last(`${NAME}/successor`);
        if (toSuccessor && announced && !client.isFaultySince(sinceMs)) {
          const isOver =
            isHandedOver || this.#hasLed(successor, sinceMs) || client.closing !== undefined;
          const waitedMs = site.nowMs - announced.grantedAtMs;
          const hasWaited = waitedMs >= HANDOVER_MS * 0.98 - 10 - PROMPT_MS;
          site.expect(isOver || hasWaited, `${client.name} waits ${waitedMs} ms for ${successor}`);
        }
        if (!toSuccessor || !isWaiting) return;
        const isFaulty = client.isFaultySince(sinceMs) || other.client.isFaultySince(sinceMs);
        const hasLeft = other.client.closing !== undefined || other.leaving.signal.aborted;
        const isRevoked = [...book.grants.values()].some(
          ({ resource, ended, endedAtMs }) =>
            resource.startsWith(NAME) && ended === "revoked" && endedAtMs >= sinceMs - TTL_MS,
        );
        const isSlow = candidate.stoppingMs > 0;
        site.expect(
          isHandedOver || isFaulty || hasLeft || isRevoked || isSlow,
          `${client.name} hands over to ${successor}, which does not lead`,
        );
      },
      (code) => {
        if (code === "STILL_RUNNING") site.count("resign: still running");
        return (
          (code === "STILL_RUNNING" && candidate.stoppingMs > GRACE_MS) ||
          (code === "STORE_UNAVAILABLE" && client.isFaultySince(sinceMs)) ||
          (code === "CLOSED" && client.closing !== undefined)
        );
      },
    );
  }

  #hasLed(name: string, sinceMs: number): boolean {
    return [...this.book.grants.values()].some(
      ({ resource, holder, grantedAtMs }) =>
        resource === NAME && holder === name && grantedAtMs >= sinceMs,
    );
  }

  #close(client: Client): void {
    if (client.closing) return;
    client.closing = client.leasehold.close();
    const closed = () => {
      client.isClosed = true;
      this.site.count("close: done");
    };
    this.#ask(client.closing, closed, () => false);
  }

  async #observe(): Promise<void> {
    const { site, book } = this;
    const [, , observer] = site.clients;
    if (!observer) return;
    const { signal } = this.observing;
    for await (const change of observer.leasehold.elector(NAME).observe({ signal })) {
      const before = this.observed?.token ?? 0;
      site.expect((change.token ?? 0) >= before, "the observed tokens grow");
      const granted = [...book.grants.values()].find(
        ({ resource, token }) => resource === NAME && token === change.token,
      );
      const isRight = change.leader === null || change.leader === granted?.holder;
      site.expect(isRight, `${change.leader} is observed to lead`);
      site.expect(!change.self, "an observer does not lead");
      this.observed = change;
      site.count(change.leader === null ? "observed: no leader" : "observed: a leader");
    }
  }

  #ask(asked: Promise<unknown>, onAnswer: () => void, isRight: (code: string) => boolean): void {
    this.#open += 1;
    asked.then(
      () => {
        this.#open -= 1;
        onAnswer();
      },
      (error: unknown) => {
        this.#open -= 1;
        const code = codeOf(error);
        this.site.expect(isRight(code), `a call fails with ${code}`);
      },
    );
  }
}
