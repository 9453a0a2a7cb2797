/**
 * Serves the requests of a connection one after another, as their answers are sent. Node parses all that a client sends at
 * once, two thousand requests in 64 KiB, and would serve them all in the same turn of the event loop. A turn serves at most
 * one of each connection, because a server accepts one new connection a turn (libuv since 1.45): with long turns it would
 * accept none for seconds, and a holder that needs one would lose its lease.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { nextTurn } from "leasehold/internal";

/**
 * A client that has sent so many requests before it was answered is cut off.
 * @internal
 */
export const MOST_UNANSWERED = 16;

/**
 * So many connections are served a request that they have sent ahead in one turn; the others follow in the next turns.
 * Thousands of them would make each turn last for a second.
 */
const MOST_PER_TURN = 10;

type Serve = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

export function oneByOne(serve: Serve): Serve {
  /** Of connections with a request that is being served: those that wait for its answer. */
  const waiting = new WeakMap<Socket, Parameters<Serve>[]>();
  /** Connections whose answers have ended, in order. */
  let ended: Socket[] = [];
  let scheduled = false;
  const goOn = (): void => {
    scheduled = false;
    const sockets = ended;
    ended = [];
    let begun = 0;
    for (const socket of sockets) {
      const others = waiting.get(socket);
      if (socket.destroyed || !others?.length) waiting.delete(socket);
      else if (begun < MOST_PER_TURN) {
        begun += 1;
        begin(...(others.shift() as Parameters<Serve>));
      } else goOnWith(socket);
    }
  };
  const goOnWith = (socket: Socket): void => {
    ended.push(socket);
    if (scheduled) return;
    scheduled = true;
    void nextTurn().then(goOn);
  };
  const begin = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    outgoing.once("close", () => goOnWith(incoming.socket));
    serve(incoming, outgoing);
  };
  return (incoming, outgoing) => {
    const { socket } = incoming;
    const others = waiting.get(socket);
    if (!others) {
      waiting.set(socket, []);
      begin(incoming, outgoing);
    } else if (others.length + 1 < MOST_UNANSWERED) others.push([incoming, outgoing]);
    else socket.destroy();
  };
}
