"""Prints what an installed wandb names, as JSON: executed by that SDK's own Python, alone."""

import json
import os
import sys
import tempfile

API_ADDRESSES = (
    "https://api.wandb.ai",
    "https://api.wandb.ai/",
    "https://api.forge.coreweave.com",
    "https://forge.coreweave.com/api/wandb",
    "https://api.qa.wandb.ai",
    "https://api.corp.example",
    "https://api.wandb.corp.example",
    "https://api.corp.example:8443",
    "https://wandb.corp.example",
    "https://corp.example/tools/wandb",
    "http://localhost:8080",
    "http://api.wandb.ai",
    "https://wandb.ai",
    "https://app.wandb.ai",
    "https://forge.coreweave.com/wandb",
)
NETRC_HOSTS = ("api.wandb.ai", "api.forge.coreweave.com", "corp.example:8443", "default")


def read_pages(url):
    """Return where the SDK has the pages of a server, or why it refuses the address."""
    try:
        settings = wandb.Settings(base_url=url)
        if hasattr(settings, "app_url"):
            return {"pages": settings.app_url}
        return {"pages": wandb.util.app_url(settings.base_url)}
    except Exception as error:
        said = (str(error).splitlines()[2:] or [str(error)])[0]  # below pydantic's two lines
        return {"refused": said.partition(" [type=")[0].strip()}


def read_key(url, hosts):
    """Return the netrc host whose key the SDK uses for a server, None if it uses none."""
    with open(os.environ["NETRC"], "w", encoding="utf-8") as file:
        for host in hosts:
            start = host if host == "default" else f"machine {host}"
            file.write(f"{start} login user password {name_key(host)}\n")
    try:
        from wandb.sdk.lib import wbauth

        found = wbauth.read_netrc_auth(host=url)
    except (ImportError, AttributeError):
        from wandb.sdk.lib import apikey

        found = apikey.api_key(settings=wandb.Settings(base_url=url))
    return next((host for host in hosts if name_key(host) == found), None)


def name_key(host):
    """Return a key by which its host is known."""
    return (host.replace(".", "_").replace(":", "_") + "_" * 40)[:40]


def main():
    """Print all of it."""
    both = [["api.wandb.ai", "api.forge.coreweave.com"], ["api.wandb.ai", "default"]]
    entries = [[host] for host in NETRC_HOSTS] + both
    servers = [f"https://{host}" for host in NETRC_HOSTS[:3]]
    named = {str(value) for name, value in vars(wandb.env).items() if name.isupper()}
    variables = [name for name in named if name.startswith("WANDB_")]
    settings = [name for name in wandb.Settings.model_fields if not name.startswith("x_")]
    said = {
        "default_base_url": wandb.Settings.model_fields["base_url"].default,
        "addresses": {url: read_pages(url) for url in API_ADDRESSES},
        "netrc": [
            {"server": url, "entries": hosts, "used": read_key(url, hosts)}
            for url in servers
            for hosts in entries
        ],
        "environment": sorted(variables),
        "settings": sorted(settings),
    }
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    for name in [one for one in os.environ if one.startswith("WANDB_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(HOME=folder, NETRC=os.path.join(folder, "netrc"))
        os.chdir(folder)
        import wandb
        import wandb.env

        main()
