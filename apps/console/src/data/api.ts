/** Requests to the server that serves this console. */
import type { Problem } from "leasehold/internal/wire";
import { BASE_PATH } from "./base.js";
import { session } from "./session.js";

type ProblemBody = Partial<Problem>;

/** The server refused a request, or could not be reached (status 0). */
export class ApiError extends Error {
  override readonly name = "ApiError";
  constructor(
    readonly status: number,
    readonly problem: ProblemBody,
  ) {
    super(problem.detail ?? problem.title ?? `The server responded with status ${status}.`);
  }

  get code(): string {
    return this.problem.code ?? (this.status === 0 ? "UNREACHABLE" : `HTTP_${this.status}`);
  }
}

export interface RequestOptions {
  readonly signal?: AbortSignal;
  /** Undefined and empty values are left out. An array becomes repeated parameters. */
  readonly query?: Readonly<
    Record<string, string | number | boolean | readonly string[] | undefined>
  >;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** @throws ApiError, or the reason with which `signal` was aborted */
export async function send(
  method: string,
  path: string,
  options: RequestOptions = {},
): Promise<Response> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== "") query.append(name, String(each));
    }
  }
  const key = session.key();
  const headers = new Headers(options.headers);
  if (key) headers.set("authorization", `Bearer ${key}`);
  if (options.body !== undefined) headers.set("content-type", "application/json");
  let response: Response;
  try {
    response = await fetch(`${BASE_PATH}${path}${query.size > 0 ? `?${query}` : ""}`, {
      method,
      headers,
      signal: options.signal ?? null,
      ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
    });
  } catch (error) {
    options.signal?.throwIfAborted();
    throw new ApiError(0, { detail: "The server is unavailable.", title: String(error) });
  }
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as ProblemBody;
  if (response.status === 401) session.refused(problem.detail);
  throw new ApiError(response.status, problem);
}

/** The response's JSON; undefined for an empty response. */
export async function api<T>(method: string, path: string, options?: RequestOptions): Promise<T> {
  const response = await send(method, path, options);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

export const get = <T>(path: string, options?: RequestOptions): Promise<T> =>
  api<T>("GET", path, options);
