/** Where the server is: the console may be mounted below a path. Without a slash at the end. */
export const BASE_PATH = new URL(document.baseURI).pathname.replace(/\/[^/]*$/, "");
