/**
 * One connection to one server, for the session that it opens or goes on with. When it ends it has
 * ended: what was under way is unanswered, and nothing of it is sent again.
 *
 * A small request every twelfth of the session keeps fresh how long that surely lasts (see
 * connection-lifetime.ts). It also shows when a server has fallen silent, which the driver does not check.
 */
import { type Env, nextTurn, type Timer } from "../../env/index.js";
import {
  type ClientOptions,
  type Driver,
  type DriverClient,
  type OpResult,
  readWhole,
  STATES,
  type Stat,
  type Watcher,
} from "./connection-driver.js";
import { Lifetime } from "./connection-lifetime.js";
import { CODES, Refused, Unanswered } from "./failures.js";

/** Whose connection it is: what the server gave when the session began. */
export interface SessionIdentity {
  readonly id: Buffer;
  readonly password: Buffer;
}

export interface LinkOptions {
  readonly server: string;
  /** Absent: a new session. */
  readonly identity: SessionIdentity | null;
  readonly sessionTimeoutMs: number;
  readonly auth: string | undefined;
  /** Until the server has answered. */
  readonly withinMs: number;
}

/** The session that was to be gone on with has ended: all that it held is free. */
export class SessionEnded extends Error {}

/** Of a session. */
const BEAT_RATIO = 1 / 12;
/** Of a session, after which an answer that is due shows that the server has fallen silent. */
const SILENT_RATIO = 1 / 3;
const CLOSE_TIMEOUT_MS = 1_000;

export class Link {
  readonly identity: SessionIdentity;
  /** The session's, as text. */
  readonly owner: string;
  /** What the server has granted. */
  readonly sessionTimeoutMs: number;
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>;
  readonly #end: () => void;
  readonly #unanswered = new Set<{ readonly sentMs: number; lost(error: Error): void }>();
  #over: Unanswered | null = null;
  readonly #lifetime: Lifetime;
  #beat: Timer | undefined;
  #lastBeatMs: number;

  private constructor(
    readonly client: DriverClient,
    readonly env: Env,
    openedMs: number,
  ) {
    this.identity = { id: client.getSessionId(), password: client.getSessionPassword() };
    this.owner = this.identity.id.toString("hex");
    this.sessionTimeoutMs = client.getSessionTimeout();
    this.#lifetime = new Lifetime(this.sessionTimeoutMs, openedMs);
    this.#lastBeatMs = openedMs;
    let end = () => {};
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#end = end;
    this.#armBeat();
  }

  /** Rejects with SessionEnded, Unanswered or StoreMisconfiguredError. */
  static open(driver: Driver, options: LinkOptions, env: Env): Promise<Link> {
    const { server, identity, sessionTimeoutMs, auth, withinMs } = options;
    const known = identity && { sessionId: identity.id, sessionPassword: identity.password };
    const settings: ClientOptions = {
      sessionTimeout: sessionTimeoutMs,
      spinDelay: 0,
      retries: 0,
      ...known,
    };
    const client = driver.createClient(server, settings);
    if (auth !== undefined) client.addAuthInfo("digest", Buffer.from(auth));
    const { connectionManager: connection } = client;
    const openedMs = env.clock.monotonic();
    return new Promise((resolve, reject) => {
      let link: Link | undefined;
      let problem: Error | undefined;
      const fail = (error: Error) => {
        timer.cancel();
        if (link) link.#lost(error);
        else reject(error);
      };
      const cut = (error: Error) => {
        problem ??= error;
        fail(error);
        connection.socket?.destroy(error);
      };
      const silent = () => cut(new Unanswered(`${server} does not answer`, false));
      const timer = env.clock.timer(withinMs, silent, { background: true });
      connection.on("state", (state) => {
        if (state === STATES.connected && !problem) {
          timer.cancel();
          link = new Link(client, env, openedMs);
          resolve(link);
        } else if (state === STATES.expired) {
          fail(new SessionEnded("the session has ended"));
        } else if (state === STATES.authenticationFailed) {
          cut(new Refused(CODES.AUTH_FAILED, null));
        } else if (state === STATES.disconnected || state === STATES.closed) {
          const cause = problem ?? connection.socket?.errored ?? undefined;
          const what = cause?.message ?? `${server} has closed the connection`;
          fail(new Unanswered(what, false, cause));
        }
      });
      readWhole(connection, cut);
      client.connect();
      // Whoever connects anew is the session, with another client.
      connection.connect = () => {};
      // By then it has its socket. What holds a process open is who waits for an answer.
      void nextTurn().then(() => {
        connection.socket?.unref();
        connection.connectTimeoutHandler?.unref?.();
      });
    });
  }

  get isOpen(): boolean {
    return this.#over === null;
  }

  /** The session lasts until then at least, if a write that was sent at `sentMs` is answered. */
  lastsUntilMs(sentMs: number): number {
    return this.#lifetime.lastsUntilMs(sentMs);
  }

  /** @param watcher called once, when it has been written or deleted after this */
  getData(
    path: string,
    deadlineMs: number,
    watcher?: Watcher,
  ): Promise<{ data: Buffer | undefined; stat: Stat }> {
    return this.#call(deadlineMs, (done) => {
      const answered = (error: Error | null | undefined, data: Buffer | undefined, stat: Stat) =>
        done(error, () => ({ data, stat }));
      if (watcher) this.client.getData(path, watcher, answered);
      else this.client.getData(path, answered);
    });
  }

  /** @param watcher called once, when a child has come or gone after this */
  getChildren(
    path: string,
    deadlineMs: number,
    watcher?: Watcher,
  ): Promise<{ children: string[]; stat: Stat }> {
    return this.#call(deadlineMs, (done) => {
      const answered = (error: Error | null | undefined, children: string[], stat: Stat) =>
        done(error, () => ({ children, stat }));
      if (watcher) this.client.getChildren(path, watcher, answered);
      else this.client.getChildren(path, answered);
    });
  }

  exists(path: string, deadlineMs: number): Promise<Stat | null> {
    return this.#call(deadlineMs, (done) =>
      this.client.exists(path, (error, stat) => done(error, () => stat)),
    );
  }

  setData(path: string, data: Buffer, version: number, deadlineMs: number): Promise<Stat> {
    return this.#call(deadlineMs, (done) =>
      this.client.setData(path, data, version, (error, stat) => done(error, () => stat)),
    );
  }

  remove(path: string, version: number, deadlineMs: number): Promise<void> {
    return this.#call(deadlineMs, (done) =>
      this.client.remove(path, version, (error) => done(error, () => {})),
    );
  }

  /** All or nothing. */
  commit(
    transaction: ReturnType<DriverClient["transaction"]>,
    deadlineMs: number,
  ): Promise<OpResult[]> {
    return this.#call(deadlineMs, (done) =>
      transaction.commit((error, results) => done(error, () => results)),
    );
  }

  /** Ends the session too, which frees all that it holds. */
  async close(): Promise<void> {
    if (this.#over) return;
    const patience = this.env.clock.timer(CLOSE_TIMEOUT_MS, () =>
      this.cut(new Error("closing takes too long")),
    );
    this.client.close();
    await this.ended;
    patience.cancel();
  }

  cut(error: Error): void {
    this.#lost(error);
    this.client.connectionManager.socket?.destroy(error);
  }

  #call<T>(
    deadlineMs: number,
    send: (done: (error: Error | null | undefined, result: () => T) => void) => void,
  ): Promise<T> {
    const sentMs = this.env.clock.monotonic();
    if (this.#over) return Promise.reject(new Unanswered(this.#over.message, false, this.#over));
    if (sentMs >= deadlineMs) {
      return Promise.reject(new Unanswered("the time was over before it was sent", false));
    }
    return new Promise((resolve, reject) => {
      const call = {
        sentMs,
        lost: (error: Error) => {
          timer.cancel();
          reject(new Unanswered(`the connection was lost: ${error.message}`, true, error));
        },
      };
      // Its caller gives up; whether the server has fallen silent is for the beat to say.
      const timer = this.env.clock.timer(deadlineMs - sentMs, () =>
        reject(new Unanswered(`no answer within ${Math.round(deadlineMs - sentMs)} ms`, true)),
      );
      this.#unanswered.add(call);
      send((error, result) => {
        // Told by the end of the connection already, or to be told.
        const code = codeOf(error);
        if (code === CODES.CONNECTION_LOSS) return;
        if (code === CODES.SESSION_EXPIRED) return this.cut(new Error("the session has ended"));
        timer.cancel();
        this.#unanswered.delete(call);
        this.#lifetime.touched({ sentMs, answeredMs: this.env.clock.monotonic() });
        if (error) reject(new Refused(code, error));
        else resolve(result());
      });
    });
  }

  #armBeat(): void {
    this.#beat = this.env.clock.timer(
      this.sessionTimeoutMs * BEAT_RATIO,
      () => {
        const nowMs = this.env.clock.monotonic();
        const [eldest] = this.#unanswered;
        // Seen from the beat before: this process may have stood still since, with the answer unread.
        const overdueMs = this.#lastBeatMs - this.sessionTimeoutMs * SILENT_RATIO;
        if (eldest && eldest.sentMs < overdueMs) {
          this.cut(new Error("the server has fallen silent"));
          return;
        }
        this.#lastBeatMs = nowMs;
        this.exists("/", nowMs + this.sessionTimeoutMs).catch(() => {});
        this.#armBeat();
      },
      { background: true },
    );
  }

  #lost(error: Error): void {
    if (this.#over) return;
    this.#over = new Unanswered(error.message, false, error);
    this.#beat?.cancel();
    for (const call of this.#unanswered) call.lost(error);
    this.#unanswered.clear();
    this.#end();
  }
}

function codeOf(error: Error | null | undefined): number {
  return error && "code" in error && typeof error.code === "number" ? error.code : 0;
}
