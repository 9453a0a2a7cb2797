/** An answer that node's HTTP server sends. */
import type { ServerResponse } from "node:http";
import type { Answer } from "./request.js";

type Socket = ServerResponse["req"]["socket"];

/** What ends with a connection. One listener for all: a client may pipeline many requests. */
const unended = new WeakMap<Socket, Set<() => void>>();

export class NodeAnswer implements Answer {
  readonly #outgoing: ServerResponse;
  readonly #socket: Socket;
  readonly #before: number;

  constructor(outgoing: ServerResponse, socket: Socket) {
    this.#outgoing = outgoing;
    this.#socket = socket;
    this.#before = socket.bytesWritten;
  }

  readonly unsent = (): number => this.#outgoing.writableLength;

  readonly bytes = (): number => this.#socket.bytesWritten - this.#before;

  readonly onEnd = (call: () => void): void => {
    const calls = endingWith(this.#socket);
    const end = () => {
      if (calls.delete(end)) call();
    };
    calls.add(end);
    this.#outgoing.on("close", end);
    if (this.#outgoing.destroyed || this.#socket.destroyed) end();
  };
}

/** A pipelined response does not emit `close` when its connection is cut. */
function endingWith(socket: Socket): Set<() => void> {
  const known = unended.get(socket);
  if (known) return known;
  const calls = new Set<() => void>();
  unended.set(socket, calls);
  socket.once("close", () => {
    for (const end of calls) end();
  });
  return calls;
}
