// Sign in by a link: what stands behind its # leaves the address at once, and is posted.

const [, code] = /^#link=([\w-]+)$/.exec(location.hash) ?? [];
if (code) {
  history.replaceState(null, "", location.pathname + location.search);
  const form = document.getElementById("form");
  const link = document.createElement("input");
  Object.assign(link, { type: "hidden", name: "link", value: code });
  form.append(link);
  document.getElementById("key").required = false;
  form.submit();
}
