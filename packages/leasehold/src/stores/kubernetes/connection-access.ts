/**
 * What authenticates requests, and how it is renewed while leases are held:
 *
 *   files   read again after a minute and when the server refuses them; if they cannot be read, the last ones stay
 *   plugin  run again before its credential expires and when the server refuses it (connection-exec.ts)
 *
 * A certificate belongs to a connection, so new certificates get an agent of their own.
 */
import type { Agent as HttpAgent, OutgoingHttpHeaders } from "node:http";
import { type AgentOptions, Agent as HttpsAgent } from "node:https";
import type { Clock } from "../../env/index.js";

/** Of a request. */
export interface Access {
  readonly headers: Readonly<OutgoingHttpHeaders>;
  readonly agent: HttpAgent;
}

export interface Cluster {
  /** URL of the API server, without a trailing slash. */
  readonly server: string;
  /** The namespace of the kubeconfig's context or of the service account. */
  readonly namespace: string | undefined;
  /**
   * Returns the credentials of a request.
   * @param refused those that the server rejected
   */
  access(refused?: Access): Promise<Access>;
  /** Closes the connections. */
  close(): void;
}

/** What the files say, or a plugin. */
export interface Credentials {
  readonly headers: Readonly<OutgoingHttpHeaders>;
  readonly tls: AgentOptions;
}

/** The kubelet replaces a token long before it expires. client-go rereads it at the same interval. */
const REREAD_MS = 60_000;

/** The content of files that others rewrite. */
export class Reread<T> {
  readonly #read: () => Promise<T>;
  readonly #clock: Clock;
  #last: { readonly content: T; readonly readMs: number } | undefined;
  #reading: Promise<T> | undefined;

  constructor(clock: Clock, read: () => Promise<T>) {
    this.#clock = clock;
    this.#read = read;
  }

  /**
   * @param again reads even if the last content is fresh
   * @throws as the reading, if there is no content yet
   */
  async get(again = false): Promise<T> {
    const last = this.#last;
    if (last && !again && this.#clock.monotonic() - last.readMs < REREAD_MS) return last.content;
    this.#reading ??= this.#readAgain().finally(() => {
      this.#reading = undefined;
    });
    return last ? this.#reading.catch(() => last.content) : this.#reading;
  }

  async #readAgain(): Promise<T> {
    const content = await this.#read();
    this.#last = { content, readMs: this.#clock.monotonic() };
    return content;
  }
}

/** The access that requests use now. */
export class CurrentAccess {
  readonly #credentials: (again: boolean) => Promise<readonly Credentials[]>;
  readonly #newAgent: (tls: AgentOptions) => HttpAgent;
  #parts: readonly Credentials[] = [];
  #access: Access | undefined;
  #tls = "";

  /**
   * @param credentials later ones go first; the same objects as long as they say the same
   * @param newAgent opens connections
   */
  constructor(
    credentials: (again: boolean) => Promise<readonly Credentials[]>,
    newAgent: (tls: AgentOptions) => HttpAgent = (tls) => new HttpsAgent(tls),
  ) {
    this.#credentials = credentials;
    this.#newAgent = newAgent;
  }

  /** @param refused what the server rejected: it is renewed once, however many requests had it */
  async get(refused?: Access): Promise<Access> {
    const parts = await this.#credentials(refused !== undefined && refused === this.#access);
    const isSame = parts.every((part, at) => part === this.#parts[at]);
    if (this.#access && isSame) return this.#access;
    this.#parts = parts;
    const tls = Object.assign({}, ...parts.map((part) => part.tls)) as AgentOptions;
    const headers = Object.assign({}, ...parts.map((part) => part.headers)) as OutgoingHttpHeaders;
    this.#access = { headers, agent: this.#agentFor(tls) };
    return this.#access;
  }

  /** Closes the connections. */
  close(): void {
    this.#access?.agent.destroy();
  }

  #agentFor(tls: AgentOptions): HttpAgent {
    const text = JSON.stringify(tls);
    const before = this.#access?.agent;
    if (before && text === this.#tls) return before;
    this.#tls = text;
    if (before) retire(before);
    return this.#newAgent({ ...tls, keepAlive: true });
  }
}

/** Requests in flight end on their connections, which then close. */
function retire(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  closeIdle(agent);
}

/** Requests in flight stay. */
export function closeIdle(agent: HttpAgent): void {
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}
