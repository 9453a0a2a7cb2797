/** /v1/keys: the API keys of the caller's tenant, for its admins. */
import { createRoute } from "@hono/zod-openapi";
import {
  type ApiKey,
  ApiKeyRotatedError,
  createApiKey,
  type MadeApiKey,
  revokeApiKey,
  rotateApiKey,
  TooManyApiKeysError,
} from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import {
  ApiKeyPage,
  ApiKey as ApiKeySchema,
  KeyBody,
  KeyListQuery,
  KeyParams,
  NewApiKey,
  ReasonQuery,
  RotateBody,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { invalid, ProblemError, tooMany } from "../problems.js";
import { limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import {
  type App,
  answers,
  bodyProblems,
  defined,
  jsonBody,
  otherMethods,
  problems,
} from "../routing.js";
import type { Services } from "../services.js";
import { byCaller, controlOf } from "./operator-action.js";

const TAGS = ["keys"];

export function keyRoutes(app: App, services: Services): void {
  const { random } = services.env;
  const { keyMaxLifeMs: maxLifeMs } = services;
  const middleware = limitBody(BOUNDS.bodyBytes);

  app.openapi(
    createRoute({
      ...needs("administer"),
      method: "get",
      path: "/v1/keys",
      tags: TAGS,
      summary: "List the tenant's keys, ended ones included, without their secrets",
      request: { query: KeyListQuery },
      responses: {
        200: answers("Newest first.", ApiKeyPage),
        ...problems("INVALID_REQUEST", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { keys } = controlOf(services);
      const { namespace } = callerOf(context);
      const query = { namespace, ...defined(context.req.valid("query")) };
      const { items, nextCursor } = await services.page(context, query.limit, () =>
        keys.list(query),
      );
      return context.json({ items: items.map(toWireKey), nextCursor }, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("administer"),
      method: "post",
      path: "/v1/keys",
      tags: TAGS,
      summary: "Create a key; only this response contains its text",
      middleware,
      request: jsonBody(KeyBody),
      responses: {
        201: answers("The key. Store it now: it is not shown again.", NewApiKey),
        ...bodyProblems("LIMIT_REACHED", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { prefixes = [], reason, ...wanted } = context.req.valid("json");
      const control = controlOf(services);
      const { namespace, bootstrap } = callerOf(context);
      if (bootstrap && wanted.role !== "admin") {
        throw invalid([{ path: "role", problem: "of the first key must be admin" }]);
      }
      const by = byCaller(context, reason);
      const make = () =>
        createApiKey(control, random, { ...wanted, namespace, prefixes, maxLifeMs }, by);
      const change = () => services.budget(context).change(make);
      const made = await (bootstrap ? bootstrap.use(change) : change()).catch(refused);
      return context.json(toWireMade(made), 201);
    },
  );
  otherMethods(app, "/v1/keys", "GET", "POST");

  app.openapi(
    createRoute({
      ...needs("administer"),
      method: "post",
      path: "/v1/keys/{id}/rotate",
      tags: TAGS,
      summary: "Replace a key; the old one stays valid for a while",
      middleware,
      request: { params: KeyParams, ...jsonBody(RotateBody) },
      responses: {
        201: answers("The new key. Store it now: it is not shown again.", NewApiKey),
        ...bodyProblems("UNKNOWN_KEY", "KEY_ROTATED", "LIMIT_REACHED", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { overlapMs, reason } = context.req.valid("json");
      const control = controlOf(services);
      const id = keyId(context.req.valid("param").id);
      const { namespace } = callerOf(context);
      const by = byCaller(context, reason);
      const rotate = () =>
        rotateApiKey(control, random, { namespace, id, overlapMs, maxLifeMs }, by);
      const made = await services.budget(context).change(rotate).catch(refused);
      if (!made) throw unknownKey();
      services.authenticator.forget(id);
      return context.json(toWireMade(made), 201);
    },
  );
  otherMethods(app, "/v1/keys/:id/rotate", "POST");

  app.openapi(
    createRoute({
      ...needs("administer"),
      method: "delete",
      path: "/v1/keys/{id}",
      tags: TAGS,
      summary: "Revoke a key; this instance refuses it at once, others within 5 s",
      request: { params: KeyParams, query: ReasonQuery },
      responses: {
        200: answers("The revoked key. The same for a repeated request.", ApiKeySchema),
        ...problems("UNKNOWN_KEY", "INVALID_REQUEST", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { reason } = context.req.valid("query");
      const control = controlOf(services);
      const id = keyId(context.req.valid("param").id);
      const { namespace } = callerOf(context);
      const by = byCaller(context, reason);
      const revoke = () => revokeApiKey(control, { namespace, id }, by);
      const ended = await services.budget(context).change(revoke);
      if (!ended) throw unknownKey();
      services.authenticator.forget(id);
      return context.json(toWireKey(ended), 200);
    },
  );
  otherMethods(app, "/v1/keys/:id", "DELETE");
}

/** A malformed id names no key. */
function keyId(text: string): string {
  if (/^[0-9a-f]{12}$/.test(text)) return text;
  throw unknownKey();
}

/** Retry-After when there are too many keys: an admin has to revoke one first. */
const FULL_FOR_MS = 60_000;

/** @throws LIMIT_REACHED if there are too many keys, KEY_ROTATED, or the error itself */
function refused(error: unknown): never {
  if (error instanceof ApiKeyRotatedError) throw new ProblemError("KEY_ROTATED", error.message);
  if (error instanceof TooManyApiKeysError) {
    throw tooMany("quota", error.message, FULL_FOR_MS);
  }
  throw error;
}

/** The same problem for keys of other tenants. */
function unknownKey(): ProblemError {
  return new ProblemError("UNKNOWN_KEY", "no key has this id, or it has ended");
}

function toWireKey(key: ApiKey) {
  const { id, namespace, name, role, prefixes, createdAt, expiresAt, remainingMs, revoked } = key;
  const { lastUsedAt, queues } = key;
  return {
    id,
    namespace,
    name,
    role,
    prefixes: [...prefixes],
    queues: [...queues],
    createdAt,
    expiresAt,
    remainingMs,
    revoked,
    lastUsedAt,
  };
}

function toWireMade({ key, text }: MadeApiKey) {
  return { ...toWireKey(key), key: text };
}
