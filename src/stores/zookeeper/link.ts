/**
 * One connection to one server, for the session that it opens or goes on with. When it ends it has
 * ended: what was under way is unanswered, and nothing of it is sent again.
 *
 * How long the session lasts. The leader counts its timeout from the last *touch* that it has heard of.
 * A server that is no leader collects the touches of its clients, tells of them when the leader pings
 * it (every half tick), and does not say so to anybody:
 *
 *   client   ──a──────────────────w────▶ answered
 *   server     touched(a) ─┐      │ write, through the leader and a quorum
 *   leader   ──────────────┴ping──┴──▶   the session lasts from a on at least, not from w
 *
 * So a write that is answered proves that the session lives, and that whatever was answered a while
 * before it has been told to the leader: server and leader talk over one connection, in order. That
 * while is a sixth of the session, more than half a tick from 3 ticks on. Connecting touches at once.
 * A small request every twelfth of the session keeps what is proven young; it also shows when a server
 * has fallen silent, which the driver does not look for.
 */
import { type Env, nextTurn, type Timer } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import {
  type ClientOptions,
  type Driver,
  type DriverClient,
  type DriverConnection,
  type OpResult,
  STATES,
  type Stat,
  type Watcher,
} from "./driver.js";
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

/** Of a session, within which a touch has reached the leader, if the leader lives. */
const TOLD_RATIO = 1 / 6;
const BEAT_RATIO = 1 / 12;
/** Of a session, after which an answer that is due shows that the server has fallen silent. */
const SILENT_RATIO = 1 / 3;
/** No answer of a ZooKeeper server is longer; text of other servers read as a length is. */
const LONGEST_ANSWER_BYTES = 64 * 2 ** 20;
const MOST_TOUCHES = 50;
const CLOSE_TIMEOUT_MS = 1_000;

interface Touch {
  readonly sentMs: number;
  readonly answeredMs: number;
}

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
  readonly #touches: Touch[];
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
    // Of a connection the leader is told before it stands.
    this.#touches = [{ sentMs: openedMs, answeredMs: Number.NEGATIVE_INFINITY }];
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
      ...{ sessionTimeout: sessionTimeoutMs, spinDelay: 0, retries: 0, ...known },
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
    const toldMs = sentMs - this.sessionTimeoutMs * TOLD_RATIO;
    const told = this.#touches.findLast(({ answeredMs }) => answeredMs <= toldMs);
    return (told?.sentMs ?? Number.NEGATIVE_INFINITY) + this.sessionTimeoutMs;
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
        this.#touched({ sentMs, answeredMs: this.env.clock.monotonic() });
        if (error) reject(new Refused(code, error));
        else resolve(result());
      });
    });
  }

  #touched(touch: Touch): void {
    const lastMs = this.#touches.at(-1)?.sentMs ?? Number.NEGATIVE_INFINITY;
    // A few per beat are as good as all, and the latest half of a session as good as its whole.
    if (touch.sentMs < lastMs + this.sessionTimeoutMs / 100) return;
    this.#touches.push(touch);
    if (this.#touches.length > MOST_TOUCHES) this.#touches.shift();
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

/** The driver is given whole messages, one at a time; what it cannot read ends the connection. */
function readWhole(connection: DriverConnection, cut: (error: Error) => void): void {
  const read = connection.onSocketData.bind(connection);
  let rest: Buffer = Buffer.alloc(0);
  connection.onSocketData = (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && connection.socket?.destroyed === false) {
      const length = rest.readInt32BE(0);
      if (length < 0 || length > LONGEST_ANSWER_BYTES) {
        cut(
          new StoreMisconfiguredError(
            "what answers is no ZooKeeper server: correct host and port in the URL",
          ),
        );
        return;
      }
      if (rest.length < length + 4) return;
      const message = rest.subarray(0, length + 4);
      rest = rest.subarray(length + 4);
      try {
        read(message);
      } catch (error) {
        cut(new Error(`an answer that the driver cannot read: ${String(error)}`));
      }
    }
  };
}
