// A realm of its own with the globals of the web and nothing else, as in a browser and in workers at the edge.
import { createContext } from "node:vm";

const WEB = {
  AbortController,
  AbortSignal,
  DOMException,
  Event,
  EventTarget,
  fetch,
  Headers,
  MessageChannel,
  Request,
  Response,
  ReadableStream,
  TextDecoder,
  TextDecoderStream,
  TextEncoder,
  TransformStream,
  URL,
  URLSearchParams,
  atob,
  btoa,
  clearTimeout,
  console,
  crypto,
  performance,
  queueMicrotask,
  // Numbers, as everywhere but in Node.
  setTimeout: (/** @type {() => void} */ callback, /** @type {number} */ delayMs) =>
    Number(setTimeout(callback, delayMs)),
};

export function webRealm() {
  return createContext({ ...WEB }, { codeGeneration: { strings: false, wasm: false } });
}
