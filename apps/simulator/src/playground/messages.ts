/** Messages in flight as readable text, and the answers that are to be lost. */

import type { LeaseView, WatchEvent } from "leasehold";
import type { AcquireOutcome, RenewOutcome } from "leasehold/internal";
import {
  type Flight,
  type NetworkWatcher,
  REFUSED,
} from "leasehold-verification/simulation/network";
import type { Said } from "leasehold-verification/simulation/remote";
import type { AnswerKind } from "./actions.js";
import type { Endpoint, MessageFrame, MessageKind } from "./frame.js";
import type { WriteAnswer, WriteMessage } from "./resource.js";
import type { NodeName } from "./settings.js";
import { NAME, type Stage } from "./stage.js";
import { duration, nodeOf, ordinal } from "./words.js";

type About = Said | WriteMessage;

const MOST_MESSAGES = 200;
const KINDS: Readonly<Record<About["operation"], MessageKind>> = {
  acquire: "acquire",
  renew: "renew",
  release: "release",
  get: "read",
  revoke: "release",
  event: "event",
  write: "write",
};

export class Messages implements NetworkWatcher {
  /** The kind of the next answer to be lost, for each process. */
  readonly #doomed = new Map<NodeName, AnswerKind>();
  readonly #stage: Stage;
  readonly #tokenOf: (leaseId: string) => number | null;

  constructor(stage: Stage, tokenOf: (leaseId: string) => number | null) {
    this.#stage = stage;
    this.#tokenOf = tokenOf;
  }

  dropNextAnswer(node: NodeName, of: AnswerKind): void {
    this.#doomed.set(node, of);
  }

  sent({ id, to, about }: Flight): void {
    this.#stage.tally.messagesSent += 1;
    const said = about as About;
    if (!isAnswer(said) || this.#doomed.get(to as NodeName) !== said.operation) return;
    this.#doomed.delete(to as NodeName);
    this.#stage.network.drop(id);
  }

  lost({ from, to, about }: Pick<Flight, "from" | "to" | "about">, why: string): void {
    this.#stage.tally.messagesLost += 1;
    const said = about as About;
    const { kind, summary } = this.#describe(said);
    // Nothing waits for these messages.
    if (kind === "event" || kind === "read") return;
    const what = isAnswer(said)
      ? `The answer "${summary}" to ${to}`
      : `${from}'s message "${summary}"`;
    const how = why === "cut off" ? "could not be delivered" : "was lost";
    const text = `${what} ${how}.`;
    if (why === "dropped") this.#stage.log.add(from as Endpoint, "message", text, true);
    else this.#stage.log.addRarely(from as Endpoint, "message", text);
  }

  /** The messages in flight. */
  frame(): readonly MessageFrame[] {
    const { inFlight } = this.#stage.network;
    return inFlight
      .slice(0, MOST_MESSAGES)
      .map(({ id, from, to, about, sentAtMs, arrivesAtMs }): MessageFrame => {
        const { kind, summary, token } = this.#describe(about as About);
        return {
          id,
          from: from as Endpoint,
          to: to as Endpoint,
          kind,
          isAnswer: isAnswer(about as About),
          sentAtMs,
          arrivesAtMs,
          token,
          summary,
        };
      });
  }

  /** A message as a noun phrase; undefined if none has that id. */
  nameOf(id: number): string | undefined {
    const flight = this.#stage.network.inFlight.find((one) => one.id === id);
    if (!flight) return undefined;
    const { summary } = this.#describe(flight.about as About);
    return `the message "${summary}" from ${flight.from} to ${flight.to}`;
  }

  #describe(said: About): Pick<MessageFrame, "kind" | "summary" | "token"> {
    const kind = KINDS[said.operation];
    if (said.answer === REFUSED) return { kind, summary: "connection refused", token: null };
    if (said.operation === "write") return describeWrite(said);
    return { kind, ...this.#describeCall(said) };
  }

  #describeCall({ operation, asked, answer }: Said): { summary: string; token: number | null } {
    const [request] = asked as readonly { leaseId?: string; resource?: string }[];
    const isHandover = request !== undefined && request.resource !== NAME;
    const token = request?.leaseId === undefined ? null : this.#tokenOf(request.leaseId);
    const first = Array.isArray(answer) ? (answer[0] as unknown) : answer;
    switch (operation) {
      case "acquire":
        if (isHandover)
          return { summary: answer ? "successor recorded" : "record a successor", token: null };
        return answer
          ? describeAcquired(first as AcquireOutcome)
          : { summary: "acquire the lease", token: null };
      case "renew":
        if (!answer) return { summary: `renew token ${token ?? "?"}`, token };
        return { summary: describeRenewed(first as RenewOutcome), token };
      case "release":
        if (answer) return { summary: "released", token };
        return { summary: token === null ? "leave the queue" : `release token ${token}`, token };
      case "get":
        if (!answer) return { summary: "read the successor", token: null };
        return { summary: describeSuccessor(first as LeaseView | null), token: null };
      case "event":
        return { summary: describeEvent(first as WatchEvent), token: null };
      case "revoke":
        return { summary: "revoke", token };
    }
  }
}

function isAnswer(said: About): boolean {
  return said.answer !== undefined;
}

function describeWrite({
  token,
  answer,
}: WriteMessage): Pick<MessageFrame, "kind" | "summary" | "token"> {
  if (answer === undefined) return { kind: "write", summary: `write with token ${token}`, token };
  const { accepted, lastToken } = answer as WriteAnswer;
  const summary = accepted ? "write accepted" : `refused: ${token} is older than ${lastToken}`;
  return { kind: "write", summary, token };
}

function describeAcquired(outcome: AcquireOutcome): { summary: string; token: number | null } {
  if (outcome.status === "acquired") {
    const { token, remainingMs } = outcome;
    return { summary: `granted for ${duration(remainingMs)}, token ${token}`, token };
  }
  if (outcome.status !== "held") return { summary: outcome.status, token: null };
  const { holder, ahead } = outcome;
  const position = ahead === undefined ? "" : `, ${ordinal(ahead + 1)} in queue`;
  return { summary: `held by ${nodeOf(holder)}${position}`, token: null };
}

function describeRenewed(outcome: RenewOutcome): string {
  if (outcome.status === "renewed") return `renewed for ${duration(outcome.remainingMs)}`;
  return outcome.status === "lost" ? `not renewed: ${outcome.reason}` : outcome.status;
}

function describeSuccessor(view: LeaseView | null): string {
  return view?.state === "live" ? "another successor is named" : "no successor named";
}

function describeEvent(event: WatchEvent): string {
  return event.type === "changed" ? "notification: a lease has ended" : "subscribed to changes";
}
