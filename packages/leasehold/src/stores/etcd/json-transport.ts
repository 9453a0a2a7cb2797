/** etcd's JSON gateway, by fetch alone, in any runtime. It encodes bytes in base64. */

import { fromBase64, toBase64 } from "../../env/base64.js";
import type { RequestContext, Transport } from "./connection.js";
import type { ErrorAnswer, Method, WatchMessage, WatchRequest } from "./connection-api.js";
import { answeredFailure, CallFailure, connectionFailure, saidFailure } from "./failures.js";

const PATHS: Readonly<Record<Method, string>> = {
  Range: "/v3/kv/range",
  Txn: "/v3/kv/txn",
  LeaseGrant: "/v3/lease/grant",
  LeaseTimeToLive: "/v3/lease/timetolive",
  Authenticate: "/v3/auth/authenticate",
  Status: "/v3/maintenance/status",
  Alarm: "/v3/maintenance/alarm",
};

export class JsonTransport implements Transport {
  /** The next request to these ends its connection: fetch keeps one whose member only refuses, as one without a leader. */
  readonly #left = new Set<string>();

  constructor(
    readonly fetch: typeof globalThis.fetch,
    /** Closes the connections of this fetch. */
    readonly close: () => void = () => {},
  ) {}

  async call(
    endpoint: string,
    method: Method,
    body: object,
    context: RequestContext,
  ): Promise<unknown> {
    return reported(endpoint, async () => {
      const response = await this.#post(endpoint, PATHS[method], body, context);
      const text = await response.text();
      if (response.status !== 200) throw answeredFailure(response.status, text, endpoint);
      try {
        return decode(text);
      } catch {
        throw answeredFailure(404, text, endpoint);
      }
    });
  }

  async *watch(
    endpoint: string,
    body: WatchRequest,
    context: RequestContext,
  ): AsyncGenerator<WatchMessage, void, void> {
    const response = await reported(endpoint, async () => {
      const response = await this.#post(endpoint, "/v3/watch", body, context);
      if (response.status === 200 && response.body) return response.body;
      throw answeredFailure(response.status, await response.text(), endpoint);
    });
    const reader: ReadableStreamDefaultReader<Uint8Array> = response.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reported(endpoint, () => reader.read());
        if (done) return;
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          if (line === "") continue;
          const message = decode(line) as { result?: WatchMessage; error?: ErrorAnswer };
          if (message.error || !message.result) throw saidFailure(message.error ?? {});
          yield message.result;
        }
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  leave(endpoint: string): void {
    this.#left.add(endpoint);
  }

  #post(
    endpoint: string,
    path: string,
    body: object,
    { token, signal }: RequestContext,
  ): Promise<Response> {
    return this.fetch.call(undefined, endpoint + path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        // A member that lost its leader then ends the watch instead of staying silent.
        "grpc-metadata-hasleader": "true",
        ...(token !== null && { authorization: token }),
        ...(this.#left.delete(endpoint) && { connection: "close" }),
      },
      body: JSON.stringify(body, toBase64If),
      redirect: "manual",
      signal,
    });
  }
}

async function reported<T>(endpoint: string, request: () => Promise<T>): Promise<T> {
  try {
    return await request();
  } catch (cause) {
    throw cause instanceof CallFailure ? cause : connectionFailure(cause, endpoint);
  }
}

/** The fields of type bytes. */
const BYTES = new Set(["key", "range_end", "value"]);

function toBase64If(field: string, value: unknown): unknown {
  return typeof value === "string" && BYTES.has(field) ? toBase64(value) : value;
}

function decode(text: string): unknown {
  return JSON.parse(text, (field, value: unknown) =>
    typeof value === "string" && BYTES.has(field) ? fromBase64(value) : value,
  );
}
