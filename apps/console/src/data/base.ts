/** The path at which the server mounts the console, without a trailing slash. */
export const BASE_PATH = new URL(document.baseURI).pathname.replace(/\/[^/]*$/, "");
