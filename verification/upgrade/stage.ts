/** Clients and servers of both versions at work on one store. */
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../tests/support/engines/free-port.js";
import { Child } from "../../tests/support/processes/processes.js";
import { openRegisters, type RegistersPlace, serveRegisters } from "../matrix/registers.js";
import type { Calls, ClientSettings } from "./client.js";
import type { Version } from "./versions.js";

/** For what must happen: only a machine that stands still takes longer. */
const PATIENCE_MS = 90_000;

interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
}

/** What a client reported. */
export class Reported extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

type Arguments<Call extends keyof Calls> = Parameters<Calls[Call]>;
type Value<Call extends keyof Calls> = Awaited<ReturnType<Calls[Call]>>;

/** A client of one version, in a process of its own. */
export class Client extends Child {
  #next = 1;

  constructor(
    readonly version: Version,
    readonly settings: ClientSettings,
  ) {
    super(process.execPath, [version.program, "client", JSON.stringify(settings)]);
  }

  get holder(): string {
    return this.settings.holder;
  }

  /** @throws Reported */
  opened(): Promise<unknown> {
    return this.#answerTo(0, "its connection");
  }

  /** @throws Reported */
  async ask<Call extends keyof Calls>(call: Call, ...args: Arguments<Call>): Promise<Value<Call>> {
    const id = this.#next;
    this.#next += 1;
    this.say(JSON.stringify({ id, call, args }));
    return (await this.#answerTo(id, `${call} ${args.join(" ")}`)) as Value<Call>;
  }

  async #answerTo(id: number, what: string): Promise<unknown> {
    const over = new AbortController();
    const answer = this.until(({ out }) =>
      out.map((line) => JSON.parse(line) as Answer).find((each) => each.id === id),
    );
    const tooLate = delay(PATIENCE_MS, null, { signal: over.signal });
    const found = await Promise.race([answer, tooLate]).finally(() => over.abort());
    if (found === null) throw new Error(`${this.holder} has not done in time: ${what}`);
    const { value, error } = found;
    if (error) throw new Reported(error.code, `${this.holder}: ${error.message}`);
    return value;
  }
}

export class Stage {
  readonly #children: Child[] = [];
  readonly #closing: (() => Promise<unknown>)[] = [];
  readonly #places: RegistersPlace;
  #count = 0;

  private constructor(places: RegistersPlace) {
    this.#places = places;
  }

  static async open(): Promise<Stage> {
    const served = await serveRegisters();
    const stage = new Stage({ kind: served.kind, url: served.url });
    stage.#closing.push(() => served.close());
    return stage;
  }

  /** A client that may be refused: see `opened`. */
  start(version: Version, url: string): Client {
    this.#count += 1;
    const holder = `${version.name}-${this.#count}`;
    const client = new Client(version, { url, holder, registers: this.#places });
    this.#children.push(client);
    return client;
  }

  async client(version: Version, url: string): Promise<Client> {
    const client = this.start(version, url);
    await client.opened();
    return client;
  }

  /** @returns the URL of a server of that version */
  async server(version: Version, store: string): Promise<string> {
    const port = await freePort();
    const server = new Child(process.execPath, [version.program, "server", `${port}`, store]);
    this.#children.push(server);
    await server.until(({ out }) => out.includes("listening"));
    return `http://127.0.0.1:${port}`;
  }

  /** The tokens that were written to a resource, after each of which a smaller one would be the write of a second holder. */
  async written(resource: string): Promise<readonly number[]> {
    const registers = await openRegisters(this.#places);
    const { unfenced } = await registers.read(resource);
    await registers.close();
    return unfenced;
  }

  async close(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.endGroup()));
    for (const close of this.#closing.reverse()) await close();
  }
}
