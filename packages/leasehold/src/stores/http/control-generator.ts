/** The generator's wanted state behind a Leasehold server. */
import type { Act } from "../../control/index.js";
import type { GeneratorState, GeneratorWanted } from "../../tasks/port.js";
import type * as wire from "../../wire/index.js";
import { type Call, type Connection, HttpClient, isFailed, queryOf } from "./connection.js";

export class HttpGeneratorState implements GeneratorState {
  readonly #client: HttpClient;

  constructor(connection: Connection) {
    this.#client = new HttpClient(connection);
  }

  read(namespace: string): Promise<GeneratorWanted> {
    return this.#send(namespace, { method: "GET", path: "/api/generator" });
  }

  /** @param by the claimed actor and the reason, for the server's audit */
  async write(
    namespace: string,
    { running, ratePerSecond }: Partial<GeneratorWanted>,
    by: Partial<Pick<Act, "actor" | "reason">> = {},
  ): Promise<GeneratorWanted> {
    const { actor, reason: why } = by;
    const reason = why ?? undefined;
    let wanted: GeneratorWanted | undefined;
    if (ratePerSecond !== undefined) {
      const body = JSON.stringify({ ratePerSecond, reason } satisfies wire.RateRequest);
      wanted = await this.#send(namespace, {
        method: "PUT",
        path: "/api/generator/rate",
        body,
        actor,
      });
    }
    if (running !== undefined) {
      const path = `/api/generator/${running ? "start" : "stop"}${queryOf({ reason })}`;
      wanted = await this.#send(namespace, { method: "POST", path, actor });
    }
    return wanted ?? this.read(namespace);
  }

  close(): void {
    this.#client.close();
  }

  async #send(namespace: string, call: Call): Promise<GeneratorWanted> {
    this.#client.checkNamespace(namespace);
    const answer = await this.#client.send(call);
    if (isFailed(answer)) throw answer.error;
    const { running, ratePerSecond } = answer.body as wire.GeneratorStatus;
    return { running, ratePerSecond };
  }
}
