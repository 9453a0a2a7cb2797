/**
 * One connection to one server, for a session that it opens or resumes. Once ended it stays ended:
 * calls in flight get no response, and none is sent again.
 *
 * A small request every twelfth of the session keeps its certain lifetime up to date (see
 * connection-lifetime.ts). It also detects a silent server, which the driver does not.
 */
import { type Env, nextTurn, type Timer } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { serverProblem } from "../../store-kit/connecting.js";
import {
  type ClientOptions,
  connectByTls,
  type Driver,
  type DriverClient,
  type OpResult,
  readWhole,
  STATES,
  type Stat,
  type Tls,
  type Watcher,
} from "./connection-driver.js";
import { Lifetime } from "./connection-lifetime.js";
import { CODES, Refused, Unanswered } from "./failures.js";

/** The identity of the session, as the server assigned it. */
export interface SessionIdentity {
  readonly id: Buffer;
  readonly password: Buffer;
}

export interface LinkOptions {
  readonly server: string;
  /** Absent for a new session. */
  readonly identity: SessionIdentity | null;
  readonly sessionTimeoutMs: number;
  readonly auth: string | undefined;
  /** Undefined without TLS. */
  readonly tls?: Tls | undefined;
  /** Timeout until the server responds. */
  readonly withinMs: number;
}

/** The session to resume has ended: its znodes are gone. */
export class SessionEnded extends Error {}

/** As a fraction of the session. */
const BEAT_RATIO = 1 / 12;
/**
 * The fraction of a session after which an overdue response means that the server has fallen silent.
 */
const SILENT_RATIO = 1 / 3;
const CLOSE_TIMEOUT_MS = 1_000;

export class Link {
  readonly identity: SessionIdentity;
  /** The session id, as text. */
  readonly owner: string;
  /** The session timeout granted by the server. */
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
    const { server, identity, sessionTimeoutMs, auth, tls, withinMs } = options;
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
      const silent = () => cut(new Unanswered(`${server} does not respond`, false));
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
          const lasting = serverProblem(cause);
          if (lasting !== null) fail(new StoreMisconfiguredError(`${server}: ${lasting}`, cause));
          else fail(new Unanswered(what, false, cause));
        }
      });
      readWhole(connection, cut);
      if (tls) connectByTls(connection, server, tls);
      else client.connect();
      // The next connection resumes the session with another client.
      connection.connect = () => {};
      // The driver has its socket by then. Only pending calls keep the process alive.
      void nextTurn().then(() => {
        connection.socket?.unref();
        connection.connectTimeoutHandler?.unref?.();
      });
    });
  }

  get isOpen(): boolean {
    return this.#over === null;
  }

  /** Returns until when the session certainly lasts, if a write sent at `sentMs` gets a response. */
  lastsUntilMs(sentMs: number): number {
    return this.#lifetime.lastsUntilMs(sentMs);
  }

  /**
   * @param watcher called once, after the next write or deletion of the znode
   */
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

  /**
   * @param watcher called once, after the next creation or deletion of a child
   */
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

  /** Applies all changes or none. */
  commit(
    transaction: ReturnType<DriverClient["transaction"]>,
    deadlineMs: number,
  ): Promise<OpResult[]> {
    return this.#call(deadlineMs, (done) =>
      transaction.commit((error, results) => done(error, () => results)),
    );
  }

  /** Also ends the session, which deletes its ephemeral znodes. */
  async close(): Promise<void> {
    if (this.#over) return;
    const patience = this.env.clock.timer(CLOSE_TIMEOUT_MS, () =>
      this.cut(new Error("closing timed out")),
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
      return Promise.reject(
        new Unanswered("the timeout expired before the request was sent", false),
      );
    }
    return new Promise((resolve, reject) => {
      const call = {
        sentMs,
        lost: (error: Error) => {
          timer.cancel();
          reject(new Unanswered(`the connection was lost: ${error.message}`, true, error));
        },
      };
      // The caller gives up. Only the heartbeat decides whether the server has fallen silent.
      const timer = this.env.clock.timer(deadlineMs - sentMs, () =>
        reject(new Unanswered(`no response within ${Math.round(deadlineMs - sentMs)} ms`, true)),
      );
      this.#unanswered.add(call);
      send((error, result) => {
        // The end of the connection reports it.
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
        // Compares with the previous heartbeat: the process may have been paused meanwhile, with the
        // response unread.
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
