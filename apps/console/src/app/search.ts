/** The query parameters of the page's URL, as plain strings. */
export type Search = Readonly<Record<string, string | undefined>>;
