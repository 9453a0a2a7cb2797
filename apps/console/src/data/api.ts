/** Requests to the server that the console came from. */
import type { Problem } from "leasehold/internal/wire";
import { BASE_PATH } from "./base.js";
import { session } from "./session.js";

type ProblemBody = Partial<Problem>;

/** An answer that says no, or none at all (status 0). */
export class ApiError extends Error {
  override readonly name = "ApiError";
  constructor(
    readonly status: number,
    readonly problem: ProblemBody,
  ) {
    super(problem.detail ?? problem.title ?? `the server answered ${status}`);
  }

  get code(): string {
    return this.problem.code ?? (this.status === 0 ? "UNREACHABLE" : `HTTP_${this.status}`);
  }
}

export interface Asked {
  readonly signal?: AbortSignal;
  /** Left out where undefined or empty; of an array each, by the same name. */
  readonly query?: Readonly<
    Record<string, string | number | boolean | readonly string[] | undefined>
  >;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** @throws ApiError; what `signal` was aborted with */
export async function send(method: string, path: string, asked: Asked = {}): Promise<Response> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked.query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== "") query.append(name, String(each));
    }
  }
  const key = session.key();
  const headers = new Headers(asked.headers);
  if (key) headers.set("authorization", `Bearer ${key}`);
  if (asked.body !== undefined) headers.set("content-type", "application/json");
  let response: Response;
  try {
    response = await fetch(`${BASE_PATH}${path}${query.size > 0 ? `?${query}` : ""}`, {
      method,
      headers,
      signal: asked.signal ?? null,
      ...(asked.body !== undefined && { body: JSON.stringify(asked.body) }),
    });
  } catch (error) {
    asked.signal?.throwIfAborted();
    throw new ApiError(0, { detail: "The server cannot be reached.", title: String(error) });
  }
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as ProblemBody;
  if (response.status === 401) session.refused(problem.detail);
  throw new ApiError(response.status, problem);
}

/** What the server answers, as JSON; undefined for an empty answer. */
export async function api<T>(method: string, path: string, asked?: Asked): Promise<T> {
  const response = await send(method, path, asked);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

export const get = <T>(path: string, asked?: Asked): Promise<T> => api<T>("GET", path, asked);
