/** Opening a store at an address: a server of another kind is reported as such, and soon. */
import { type Address, type Env, otherProtocolAt, type Protocol } from "../env/index.js";
import { LeaseholdError, StoreMisconfiguredError } from "../lease/index.js";

/** The server does not speak what the store needs. Which one it is instead, {@link openServer} asks. */
export class OtherServerError extends StoreMisconfiguredError {}

/** A healthy server has long answered by then. */
const PATIENCE_MS = 400;

export interface ExpectedServer {
  /** One right server is enough: only if each is of another kind, that is reported. */
  readonly addresses: readonly Address[];
  readonly protocol: Protocol;
  /** What to change if that protocol answers, such as `rediss://` for TLS. */
  readonly remedies?: Partial<Readonly<Record<Protocol, string>>>;
}

/**
 * Returns what `opening` opens. If it fails for a while, takes long, or has found another server, this asks the addresses
 * which protocol they answer, and rejects if it is another one. What opens after that is closed.
 * @param abandon ends the opening, whose connection would wait for its own timeout and keep the process alive
 * @throws STORE_MISCONFIGURED; otherwise as `opening`
 */
export function openServer<Opened>(
  expected: ExpectedServer,
  { clock, logger }: Env,
  opening: Promise<Opened>,
  close: (late: Opened) => Promise<unknown>,
  abandon: () => void = () => {},
): Promise<Opened> {
  return new Promise((resolve, reject) => {
    let asked: Promise<string | null> | undefined;
    const problem = () => (asked ??= problemOf(expected));
    const onSlow = () => {
      void problem().then((found) => {
        if (found === null) return;
        reject(new StoreMisconfiguredError(found));
        opening.then(close).catch(() => {});
        abandon();
      });
    };
    const timer = clock.timer(PATIENCE_MS, onSlow, { background: true });
    opening.then(
      (opened) => {
        timer.cancel();
        resolve(opened);
      },
      async (error: unknown) => {
        timer.cancel();
        const isAsked =
          error instanceof OtherServerError || (error instanceof LeaseholdError && error.retryable);
        if (!isAsked) return reject(error);
        logger.debug({ err: error }, "no connection; asking what answers at the address");
        const found = await problem();
        reject(found === null ? error : new StoreMisconfiguredError(found, error));
      },
    );
  });
}

/**
 * For an opening that cannot be abandoned: fetch keeps a TLS handshake without an answer, and with it the process,
 * for ten seconds. So this asks first what answers. A server with TLS costs that one more handshake.
 * @throws STORE_MISCONFIGURED if another protocol answers
 */
export async function checkServer(expected: ExpectedServer): Promise<void> {
  if (expected.protocol !== "TLS") return;
  const found = await problemOf(expected);
  if (found !== null) throw new StoreMisconfiguredError(found);
}

/** The address in a URL, for a store that is reached by HTTP. */
export function expectedHttp(urls: readonly string[]): ExpectedServer {
  const addresses = urls.map(addressOf);
  if (urls[0]?.startsWith("https:")) {
    return { addresses, protocol: "TLS", remedies: { HTTP: "it has no TLS" } };
  }
  return { addresses, protocol: "HTTP", remedies: { TLS: "the URL must ask for TLS" } };
}

function addressOf(text: string): Address {
  const { hostname, port, protocol } = new URL(text);
  const standard = protocol === "https:" ? 443 : 80;
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || standard) };
}

async function problemOf({ addresses, protocol, remedies = {} }: ExpectedServer) {
  const found = await Promise.all(addresses.map((address) => otherProtocolAt(address, protocol)));
  const [first] = found;
  if (!first || found.includes(null)) return null;
  const where = addresses.map(({ host, port }) => `${host}:${port}`).join(", ");
  const remedy = remedies[first] ?? "correct host and port";
  return `${where} answers as ${first}, not as ${protocol}: ${remedy}`;
}
