/** Parameters that carry secrets, such as those of Consul and PostgreSQL. */
const SECRETS = /([?&](?:\w*password|token)=)[^&#]+/gi;

/** The URL for display, with passwords, API keys and tokens masked. */
export function shownUrl(text: string): string {
  return withoutLogin(text).replace(SECRETS, "$1***");
}

function withoutLogin(text: string): string {
  // A URL with several hosts cannot be parsed.
  if (!URL.canParse(text) && /^https?:/i.test(text)) return text.replace(/\/\/[^/?#]*@/, "//***@");
  if (!URL.canParse(text)) return text.replace(/^([\w+]+:\/\/[^:@/?#]*):[^@/?#]*@/, "$1:***@");
  const url = new URL(text);
  const isServer = /^https?:$/.test(url.protocol);
  if (isServer && url.username) url.username = "***";
  if (url.password) url.password = "***";
  return url.username || url.password ? url.href : text;
}
