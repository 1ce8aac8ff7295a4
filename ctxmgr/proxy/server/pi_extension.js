// Sends pi's requests to a ctxmgr proxy. `ctxmgr wrap pi` passes this file and the proxy's address.
export default function (pi) {
  const url = process.env.CTXMGR_PROXY_URL;
  if (!url) return;
  pi.registerProvider("anthropic", { baseUrl: `${url}/anthropic` });
  pi.registerProvider("openai", { baseUrl: `${url}/openai/v1` });
}
