/** /v1/revocations: the revocations that wait for a second operator, and the confirmation of one. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import { LIMITS } from "leasehold/internal/wire";
import {
  ConfirmBody,
  ConfirmedRevocation,
  RequestedRevocations,
  RevocationParams,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { checkOperates, mayOperateOn } from "../auth/scope.js";
import { failed, ProblemError } from "../problems.js";
import { type AppEnv, limitBody } from "../request.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { byCaller, controlOf } from "./operator-action.js";
import { conflict, type Refusal, type Requested, type TwoPersonRevocations } from "./two-person.js";

const TAGS = ["leases"];

export function revocationRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/revocations",
      tags: TAGS,
      summary: "List the revocations that wait for a second operator",
      responses: {
        200: answers("Latest first, at most about 100.", RequestedRevocations),
        ...problems("NO_CONTROL"),
      },
    }),
    async (context) => {
      const twoPerson = twoPersonOf(services);
      const caller = callerOf(context);
      const { namespace } = caller;
      const read = () => twoPerson.open(namespace);
      const found = await services.scan(context, ["revocations", namespace], read);
      const items = found
        .map(({ revocation }) => revocation)
        .filter(({ resource }) => mayOperateOn(caller, resource));
      return context.json({ items }, 200);
    },
  );
  otherMethods(app, "/v1/revocations", "GET");

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/revocations/{id}/confirm",
      tags: TAGS,
      summary: "Confirm a revocation that another operator has requested",
      middleware: limitBody(LIMITS.bodyBytes),
      request: { params: RevocationParams, ...jsonBody(ConfirmBody) },
      responses: {
        200: answers("The lease is revoked.", ConfirmedRevocation),
        ...bodyProblems("UNKNOWN_REVOCATION", "CONFIRMATION_REFUSED", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { reason, ...confirmed } = context.req.valid("json");
      const twoPerson = twoPersonOf(services);
      const caller = callerOf(context);
      const { namespace } = caller;
      const by = byCaller(context, reason);
      const budget = services.budget(context);
      const id = numberOf(context.req.valid("param").id);
      const requested = await budget.read(() => twoPerson.find(namespace, id));
      if (!requested) throw unknownRevocation();
      const { revocation } = requested;
      const refusal = () => refusalOf(twoPerson, context, requested, confirmed);
      const refused = await budget.read(refusal);
      if (refused) {
        await budget.change(() => twoPerson.enterRefused(requested, refused.why, by, namespace));
        throw refused.problem;
      }
      const { resource, token: expectedToken, free } = revocation;
      const calls = services.leaseCalls(context, [{ resource }]);
      const { outcome } = await calls.revoke({ resource, expectedToken, free }, by, revocation);
      if (outcome.status === "failed") throw failed(outcome);
      // Its own entry in the audit has the outcome. Another grant may have come since the check.
      if (outcome.status !== "revoked") {
        const ended = `the grant with token ${expectedToken} has ended meanwhile`;
        throw conflict("otherGrant", ended).problem;
      }
      const { token, freeInMs } = outcome;
      return context.json({ status: "revoked" as const, resource, token, freeInMs }, 200);
    },
  );
  otherMethods(app, "/v1/revocations/:id/confirm", "POST");
}

/** @throws NO_CONTROL */
function twoPersonOf(services: Services): TwoPersonRevocations {
  controlOf(services);
  const { twoPerson } = services;
  if (!twoPerson) throw new ProblemError("INTERNAL", "a server with an audit has this");
  return twoPerson;
}

async function refusalOf(
  twoPerson: TwoPersonRevocations,
  context: Context<AppEnv>,
  requested: Requested,
  confirmed: Parameters<TwoPersonRevocations["refusal"]>[1],
): Promise<Refusal | null> {
  const caller = callerOf(context);
  try {
    checkOperates(caller, [requested.revocation.resource]);
  } catch (error) {
    if (error instanceof ProblemError) return { why: "outOfScope", problem: error };
    throw error;
  }
  return twoPerson.refusal(requested, confirmed, caller);
}

/** A malformed id names no request. */
function numberOf(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw unknownRevocation();
}

function unknownRevocation(): ProblemError {
  return new ProblemError("UNKNOWN_REVOCATION", "no revocation was requested under this id");
}
