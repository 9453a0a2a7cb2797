/** Limits of the connections of one server, and the log lines about refused ones. */
import type { Server } from "node:http";
import type { DropArgument, Socket } from "node:net";
import type { Clock, Logger } from "leasehold";
import { networkOf } from "./auth/network-of.js";
import { Counts } from "./counts.js";
import { Buckets } from "./limits/buckets.js";
import { Sampler } from "./sampler.js";

export interface ConnectionLimits {
  /** Maximum number of connections in total. */
  readonly most: number;
  /** Maximum number of connections of one remote address. */
  readonly mostPerAddress: number;
}

const LOG_EVERY_MS = 10_000;
/**
 * One address may open this part of its connections at once, and 500 at least; four seconds later it may open as many again.
 * Node accepts one connection in each turn of the event loop, and a request that each brings along makes the turn longer, so
 * holders that connect meanwhile would wait behind thousands.
 */
const [BURST_SHARE, LEAST_BURST, REFILL_S] = [1 / 4, 500, 4];

/**
 * Closes the connections above the limits as soon as they are accepted. An IPv6 network of 64 bits counts as one
 * address, because each of its machines can choose among all of them.
 * @returns a function that ends the logging
 */
export function limitConnections(
  server: Server,
  { most, mostPerAddress }: ConnectionLimits,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): () => void {
  const open = new Counts<string>();
  const fresh = new Buckets(clock);
  const burst = Math.max(LEAST_BURST, mostPerAddress * BURST_SHARE);
  const rate = { perSecond: burst / REFILL_S, most: burst };
  const newSampler = (message: string) =>
    new Sampler(clock, { most: 1, everyMs: LOG_EVERY_MS }, (refused) => {
      logger.warn({ event: "connections_refused", refused, open: open.total }, message);
    });
  const inTotal = newSampler("further connections were refused");
  const ofAddress = newSampler("further connections of single addresses were refused");
  const refuse = (sampler: Sampler, address: string | undefined, message: string) => {
    if (!sampler.admits()) return;
    const fields = { event: "connections_refused", refused: 1, open: open.total, address };
    logger.warn(fields, message);
  };
  /** @returns why an address may not open another connection now; null: it may */
  const refusalOf = (address: string): string | null => {
    if (open.of(address) >= mostPerAddress)
      return `one address has ${mostPerAddress} connections: its others are refused`;
    return fresh.take(address, rate) === 0
      ? null
      : "one address opens many connections at once: some are refused";
  };

  server.maxConnections = most;
  server.on("drop", (dropped?: DropArgument) => {
    refuse(inTotal, dropped?.remoteAddress, `there are ${most} connections: others are refused`);
  });
  server.on("connection", (socket: Socket) => {
    // Undefined if the client has already disconnected.
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) return;
    const address = networkOf(remoteAddress);
    const why = refusalOf(address);
    if (why !== null) {
      refuse(ofAddress, address, why);
      socket.destroy();
      return;
    }
    open.add(address, 1);
    socket.once("close", () => open.add(address, -1));
  });
  return () => {
    inTotal.close();
    ofAddress.close();
  };
}

/** Twice the longest silence of an event stream. */
const UNREAD_MS = 30_000;

/**
 * Ends a connection on which an answer is not read. Node's server does so after a time without any data sent or received,
 * and sets another time when the answer has been sent.
 */
export function limitUnread(socket: Socket, afterMs: number = UNREAD_MS): void {
  socket.setTimeout(afterMs);
}
