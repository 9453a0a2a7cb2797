// A worker at the edge. One of its objects is a server; requests of /client make it a client of another server.
import * as library from "leasehold";
import { http } from "leasehold/stores/http";
import { createApp } from "leasehold-server";
import { exercise } from "./exercise.mjs";

export class Leases {
  #app = library
    .openStores("memory:leases")
    .then((stores) => createApp({ ...stores, auth: "none", version: "1.0.0" }));

  /** @param {Request} request */
  async fetch(request) {
    return (await this.#app).fetch(request);
  }
}

export default {
  /** @param {Request} request @param {any} env */
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/client") return env.LEASES.get(env.LEASES.idFromName("all")).fetch(request);
    const leasehold = await library.connect(http({ url: searchParams.get("url") ?? "" }));
    try {
      await exercise(library, leasehold, { hasTasks: true });
      return new Response("works");
    } catch (error) {
      return new Response(String(error), { status: 500 });
    } finally {
      await leasehold.close();
    }
  },
};
