/** Answers on connections that node's HTTP server has given up, or never had. */
import { STATUS_CODES } from "node:http";
import { systemRandom } from "leasehold/internal";
import { type ProblemError, refusalOf } from "./problems.js";
import { requestIdOf } from "./request.js";

/** The bytes of a response after which the connection ends. */
export function rawAnswer(problem: ProblemError): string {
  const requestId = requestIdOf(undefined, { random: systemRandom });
  const { status, headers, body } = refusalOf(problem, requestId);
  const all = { ...headers, "content-length": `${Buffer.byteLength(body)}`, connection: "close" };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, "", body].join("\r\n");
}
