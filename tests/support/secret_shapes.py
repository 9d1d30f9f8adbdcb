"""Ways in which secrets are written down, and ordinary text that looks like one.

SHAPES    (text, what must not be left of it)
LINES     those that are one line, and can stand in the midst of another
COMMANDS  (words of a command line, what must not be left of them)
ORDINARY  what must stay as it is
"""

from __future__ import annotations

# Letters by dice, put together here so that no scanner of repositories takes them for real.
R40 = "aZ3kQ9xWv7Tb2LmN8cRd" + "5fHj6YgPs4Uq1EoKi0Xw"
R36, R32, R24, R20, R16 = R40[:36], R40[:32], R40[:24], R40[:20], R40[:16]
HEX40 = "8f14e45fceea167a5a36" + "dedd4bea2543c9f0f895"
HEX32 = HEX40[:32]
UPPER16 = "ABCD1234EFGH5678"
BASE64_88 = (R40 + R40 + R40)[:86] + "=="
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + R40
PEM = (
    "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n-----END " + "PRIVATE KEY-----"
)
PEM_RSA = PEM.replace("PRIVATE", "RSA PRIVATE")
BASIC = "dXNlcjpodW50ZXIy"  # user:hunter2
X = "hunter2"

NAMES_AND_VALUES = [
    (f"DB_PASSWORD={X}", X),
    (f"DBPASS={X}", X),
    (f"PGPASSWORD={X}", X),
    (f"MYSQL_PWD={X}", X),
    (f"CREDS=bob/{X}", X),
    (f"GCP_CREDENTIALS={X}", X),
    (f"APIKEY={X}", X),
    (f"AZURE_DEVOPS_PAT={X}", X),
    (f"STORAGE_SAS={X}", X),
    (f"SECRET_KEY_BASE={X}", X),
    (f"DJANGO_SECRET={X}", X),
    (f"KAGGLE_KEY={HEX32}", HEX32),
    (f"WANDB_API_KEY={HEX40}", HEX40),
    (f"wandb_api_key = {HEX40}", HEX40),
    (f"AWS_SECRET_ACCESS_KEY={R40}", R40),
    (f"aws_secret_access_key = {R20}/{R16}", R16),
    (f"aws_session_token={R40}", R40),
    (f"HF_TOKEN={X}", X),
    (f"hf_token:{X}", X),
    (f"redis_pass={X}", X),
    (f"smtpPass={X}", X),
    (f"keystorePassword={X}", X),
    (f"ENCRYPTION_KEY={X}", X),
    (f"COOKIE={X}", X),
    (f"auth_token={X}&next=1", X),
    (f"Using API key: {X}", X),
    (f"api key = {X}", X),
    (f"the password is {X}", X),
    (f"login with token {R24} failed", R24),
    (f"passphrase={X}", X),
    (f"trainer.logger.wandb.api_key={X}", X),
    (f"GF_SECURITY_ADMIN_PASSWORD={X}", X),
    (f"access_key_id={UPPER16}", UPPER16),
    (f"client_secret={X};scope=all", X),
    (f"RABBITMQ_ERLANG_COOKIE={X}", X),
    (f"VAULT_TOKEN=s.{R24}", R24),
    (f"password='correct horse {X}'", X),
    (f"JWT_SIGNING_KEY={X}", X),
    (f"API_TOKENS={X},abc", X),
    (f"encryptionKey={X}", X),
    (f"ACCESSTOKEN={X}", X),
    (f"user=bob passwd={X} host=db", X),
    (f"PASSWORD=p@ss,{X}", X),
    (f"pw={X}{R16}", R16),
    (f"OPENAI_API_KEY_PROD={X}", X),
    (f"DB_PASS_STAGING={X}", X),
    (f"HF_TOKEN_READ={X}", X),
    (f"\x1b[36mtoken\x1b[0m=\x1b[35m{X}\x1b[0m", X),
    (f"PASSWORD=ab)c{X}", X),
    (f"PASSWORD=|{X}", X),
    (f"PASSWORD=a|b<{X}", X),
    (f"Authorization=Bearer {X}", X),
    (f":password => '{X}'", X),
    (f"HF_TOKEN={X}\0PATH=/bin", X),
    (f"id_token={X}", X),
]
JSON = [
    (f'{{"api_key": "{X}", "lr": 1}}', X),
    (f'{{"token":"{X}"}}', X),
    (f'{{"auth": {{"password": "{X}"}}}}', X),
    (f'{{"auths": {{"ghcr.io": {{"auth": "{BASIC}"}}}}}}', BASIC),
    (f'{{\\"password\\": \\"{X}\\", \\"a\\": 1}}', X),
    (f'"{{\\\\\\"hf_token\\\\\\": \\\\\\"{X}\\\\\\"}}"', X),
    (f'{{"private_key": "-----BEGIN {"PRIVATE"} KEY-----\\n{R40}\\n"}}', R40),
    (f'{{"private_key_id": "{HEX40}"}}', HEX40),
    (f'{{"clientSecret": "a\\"{X}"}}', X),
    (f'{{"name": "HF_TOKEN", "value": "{X}"}}', X),
    (f'{{"Name": "DB_PASSWORD", "Value": "{X}"}}', X),
    (f'{{"refresh_token" : "{X}"}}', X),
    (f"&quot;token&quot;: &quot;{X}&quot;", X),
    (f"%22token%22%3A%22{X}%22", X),
    (f"{{\\u0022token\\u0022: \\u0022{X}\\u0022}}", X),
    (f'{{"password": "{X}', X),
    (f'{{"headers": {{"Authorization": "Bearer {X}"}}}}', X),
    (f'{{"passwords": ["{X}", "b"]}}', X),
    (f'{{"cookie": "session={X}; path=/"}}', X),
    (f'{{"aws": {{"accessKeyId": "{UPPER16}", "secretAccessKey": "{R40}"}}}}', R40),
]
PYTHON = [
    (f"{{'hf_token': '{X}'}}", X),
    (f"{{'a': 1, 'db': {{'password': '{X}'}}}}", X),
    (f"Client(api_key='{X}')", X),
    (f'Client(url="h", api_key="{X}")', X),
    (f"Settings(host='db', password='{X}', port=5432)", X),
    (f"Config(token={X}, retries=3)", X),
    (f"token='{X}'", X),
    (f"self.password = '{X}'", X),
    (f"os.environ['HF_TOKEN'] = '{X}'", X),
    (f"os.environ[\"HF_TOKEN\"]='{X}'", X),
    (f"environ({{'PATH': '/bin', 'WANDB_API_KEY': '{X}'}})", X),
    (f"b'HF_TOKEN={X}'", X),
    (f"password=b'{X}'", X),
    (f"auth=('bob', '{X}')", X),
    (f"requests.get(url, auth=('bob', '{X}'))", X),
    (f"os.environ.setdefault('HF_TOKEN', '{X}')", X),
    (f"[('password', '{X}')]", X),
    (f"SecretBox(password=Secret('{X}'))", X),
    (f"SecretBox(api_key=SecretValue(value='the {X}'))", X),
    (f"if password == '{X}':", X),
    (f'def connect(password: str = "{X}"):', X),
    (f"namespace(token='{X}', x=1)", X),
    (f"{{'Authorization': 'Bearer {X}'}}", X),
    (f"headers={{'X-Api-Key': '{X}'}}", X),
    (f"{{'token': \"it's {X}\"}}", X),
    (f"{{'note': \"{{'api_key': '{X}'}}\"}}", X),
    (f"cookies={{'sid': '{X}'}}", X),
    (f"ValueError: cannot log in with password='{X}'", X),
    (f"AuthenticationError: Incorrect API key provided: {X}", X),
    (f"repr: <Client token='{X}'>", X),
    (f"{{'hf_token': '{X}…", X),
    (f"OrderedDict([('password', '{X}')])", X),
    (f"{{'secret': ['{X}']}}", X),
    (f"password='''{X}'''", X),
    (f"f(token=\n  '{X}')", X),
]
YAML = [
    (f"token: {X}", X),
    (f"    token: {X}", X),
    (f"  - password: {X}", X),
    (f"users:\n- name: bob\n  user:\n    client-key-data: {R40}\n    x: 1", R40),
    (f"user:\n  token: {R40}", R40),
    (f"password: correct horse {X}", X),
    (f"password: '{X}'", X),
    (f"client-key-data: |\n  {R20}\n  {X}\nnext: 1", X),
    (f"  secret: >-\n    {X}\n  next: 1", X),
    (f"env:\n- name: HF_TOKEN\n  value: {X}", X),
    (f"  - name: DB_PASSWORD\n    value: '{X}'", X),
    (f'"api_key": {X}', X),
    (f"stringData:\n  password: {X}", X),
    (f".dockerconfigjson: {BASIC}\nauth: {X}", X),
    (f"aws_secret_access_key: {R40} # rotated", R40),
]
INI = [
    (f"password = {X}", X),
    (f'api_key = "{X}"', X),
    (f"[default]\naws_access_key_id={UPPER16}\naws_secret_access_key={R40}", R40),
    (f"//registry.npmjs.org/:_authToken={X}", X),
    (f"//r.example.com/:_password={X}", X),
    (f"machine api.wandb.ai login user password {X}", X),
    (f"machine h\n  login bob\n  password {X}", X),
    (f"machine github.com login bob password {X} machine b", X),
    (f"db.example.com:5432:prod:bob:{X}", X),
    (f"*:5432:*:bob:{X}", X),
    (f"spring.datasource.password={X}", X),
    (f"<password>{X}</password>", X),
    (f'<add key="ApiKey" value="{X}"/>', X),
    (f'<user name="bob" password="{X}"/>', X),
    (f"ENV HF_TOKEN {X}", X),
    (f"setenv HF_TOKEN {X}", X),
    (f"set -gx HF_TOKEN {X}", X),
    (f"aws configure set aws_secret_access_key {X}", X),
    (f"ALTER USER bob WITH PASSWORD '{X}'", X),
    (f"CREATE USER bob IDENTIFIED BY '{X}'", X),
    (f"bob:$6$rounds$abcdefgh{R40}:19000:0:", R40),
    (f"requirepass: {X}", X),
]
HEADERS = [
    (f"Authorization: Bearer {X}", X),
    (f"authorization: bearer {JWT}", JWT),
    (f"Authorization: Basic {BASIC}", BASIC),
    (f'Authorization: Digest username="bob", response="{HEX32}"', HEX32),
    (f"Authorization: Token {X}", X),
    (f"Authorization: AWS4-HMAC-SHA256 Credential={UPPER16}/x, Signature={HEX40}", HEX40),
    (f"Proxy-Authorization: Basic {BASIC}", BASIC),
    (f"X-Api-Key: {X}", X),
    (f"x-auth-token: {X}", X),
    (f"X-Amz-Security-Token: {X}", X),
    (f"Private-Token: {X}", X),
    (f"Ocp-Apim-Subscription-Key: {HEX32}", HEX32),
    (f"Cookie: sid={X}; theme=dark", X),
    (f"Set-Cookie: sessionid={X}; HttpOnly", X),
    (f"sent Bearer {R24}, got 401", R24),
    (f"sent Basic {BASIC}, got 401", BASIC),
    (f"'Bearer {X}'", X),
    (f"> GET / HTTP/1.1\n> Authorization: Bearer {X}\n> Accept: */*", X),
    (f"x-goog-api-key: {X}", X),
    (f"DD-API-KEY: {HEX32}", HEX32),
]
ADDRESSES = [
    (f"postgres://me:{X}@db:5432/x", X),
    (f"http://:{X}@proxy:3128", X),
    (f"https://{R20}@github.com/o/r", R20),
    (f"https://tok3n{X}@host/x", X),
    (f"https://x-access-token:{X}@github.com/o/r.git", X),
    (f"https://{R20}:x-oauth-basic@github.com/o/r", R20),
    (f"https://oauth2:{X}@gitlab.com/x", X),
    (f"redis://:{X}@cache:6379/0", X),
    (f"rediss://default:{X}@cache", X),
    (f"mongodb+srv://bob:{X}@c0.mongodb.net/?w=majority", X),
    (f"mongodb://bob:{X}@h1:27017,h2:27017/x", X),
    (f"amqp://bob:{X}@mq:5672/", X),
    (f"mysql+pymysql://bob:p@{X}@db/x", X),
    (f"postgresql://bob:p/{X}@db/x", X),
    (f"bob:{X}@tcp(db:3306)/x", X),
    (f"connecting to bob:{X}@db:5432/x", X),
    (f"git clone https://bob:{X}@example.com/r.git", X),
    (f"pip install --extra-index-url https://__token__:{X}@pypi.example.com/simple", X),
    (f"https://{HEX32}@o0.ingest.sentry.io/1", HEX32),
    (f"https://h/x?token={X}&y=1", X),
    (f"https://h/x?key={R20}", R20),
    (f"https://h/x?y=1&access_token={X}", X),
    (f"https://h/x?api-key={X}", X),
    (f"https://b.s3.amazonaws.com/k?X-Amz-Credential={UPPER16}%2F1&X-Amz-Signature={HEX40}", HEX40),
    (f"https://b.s3.amazonaws.com/k?X-Amz-Security-Token={R40}&X-Amz-Expires=60", R40),
    (f"https://storage.googleapis.com/b/k?X-Goog-Signature={HEX40}", HEX40),
    (f"https://a.blob.core.windows.net/c?sv=2022&se=2030&sig={R20}%2B{R16}%3D", R16),
    (f"https://d1.cloudfront.net/x?Expires=1&Signature={R40}&Key-Pair-Id={UPPER16}", R40),
    (f"https://hooks.slack.com/services/T0000/B0000/{R24}", R24),
    ("https://hooks.slack.com/services/T0/B0/correcthorse", "correcthorse"),
    ("https://discordapp.com/api/webhooks/123/tiger", "tiger"),
    (f"https://hooks.slack.com/workflows/T0/A0/123/{R24}", R24),
    (f"https://discord.com/api/webhooks/123456789012345678/{R40}", R40),
    (f"https://discordapp.com/api/webhooks/123456789012345678/{R40}?wait=true", R40),
    (f"https://acme.webhook.office.com/webhookb2/{HEX32}@{HEX32}/IncomingWebhook/{HEX32}", HEX32),
    (f"https://hooks.zapier.com/hooks/catch/123/{R16}", R16),
    (f"https://open.feishu.cn/open-apis/bot/v2/hook/{HEX32}", HEX32),
    (f"https://oapi.dingtalk.com/robot/send?access_token={HEX40}", HEX40),
    (f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={HEX32}", HEX32),
    (f"https://api.telegram.org/bot123456789:AA{R36}/sendMessage", R36),
    (f"https://maker.ifttt.com/trigger/x/with/key/{R20}", R20),
    (f"SLACK_WEBHOOK_URL=https://chat.example.com/hooks/{R24}", R24),
]
CONNECTION_STRINGS = [
    (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={BASE64_88};X=y", BASE64_88[:40]),
    (f"AccountName=a;AccountKey={X};EndpointSuffix=core.windows.net", X),
    (f"Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={R40}=", R40),
    (f"HostName=h;DeviceId=d;SharedAccessKey={R40}", R40),
    (f"SharedAccessSignature sr=x&sig={R40}&se=1", R40),
    (f"Driver={{ODBC}};Server=db;UID=bob;PWD={X};", X),
    (f"Server=db;User Id=bob;Password={X};Encrypt=yes", X),
    (f"Server=db;Uid=bob;Pwd={X};", X),
    (f"host=db user=bob password={X} dbname=x", X),
    (f"host=db user=bob password='{X} x' dbname=x", X),
    (f"jdbc:mysql://db/x?user=bob&password={X}", X),
]
SHELL = [
    (f"export X_API_KEY={X}", X),
    (f'export X_API_KEY="{X} y"', X),
    (f"env HF_TOKEN={X} python train.py", X),
    (f"bash -c 'export X_API_KEY={X}; python train.py'", X),
    (f"sh -lc \"HF_TOKEN='{X}' python train.py\"", X),
    (f"+ export WANDB_API_KEY={X}", X),
    (f'declare -x HF_TOKEN="{X}"', X),
    (f"srun --export=ALL,HF_TOKEN={X} python train.py", X),
    (f"sbatch --export=HF_TOKEN={X},A=b job.sh", X),
    (f"docker run -e HF_TOKEN={X} image", X),
    (f"docker run --env=HF_TOKEN={X} image", X),
    (f"mpirun -x HF_TOKEN={X} -np 8 python train.py", X),
    (f'ssh node-1 "cd /x; HF_TOKEN={X} python train.py"', X),
    (f"python train.py --api-key {X} --lr 1", X),
    (f"python train.py --api-key='{X} y'", X),
    (f"python train.py -token {X}", X),
    (f"curl -u bob:{X} https://h", X),
    (f"curl --user 'bob:{X} y' https://h", X),
    (f"curl -H 'Authorization: Bearer {X}' https://h", X),
    (f'curl -s -H "X-Api-Key: {X}" https://h', X),
    (f"curl -d 'password={X}' https://h", X),
    (f"mysql -h db -u root -p{X} x", X),
    (f"+ mysqldump -uroot -p'{X}' x", X),
    (f"sshpass -p {X} ssh node-1", X),
    (f"sshpass -p{X} ssh node-1", X),
    (f"docker login -u bob -p {X} ghcr.io", X),
    (f"echo {R24} | docker login --password {X}", X),
    (f"redis-cli -h h -a {X} ping", X),
    (f"ldapsearch -D cn=x -w {X}", X),
    (f"openssl enc -aes-256-cbc -pass pass:{X}", X),
    (f"unzip -P {X} a.zip", X),
    (f"smbclient //h/s -U bob%{X}", X),
    (f"kubectl create secret generic s --from-literal=password={X}", X),
    (f"kubectl --token={X} get pods", X),
    (f"helm install x --set auth.password={X}", X),
    (f"huggingface-cli login --token {X}", X),
    (f"wandb login --key {HEX40}", HEX40),
    (f"wget --http-password={X} https://h", X),
    (f"git -c http.extraHeader='Authorization: Basic {BASIC}' clone x", BASIC),
    (f"java -Djavax.net.ssl.keyStorePassword={X} -jar x", X),
    (f"$env:HF_TOKEN = '{X}'", X),
    (f"gpg --passphrase {X} -d x", X),
]
FORMS = [
    (f"AKIA{UPPER16}", UPPER16),
    (f"ASIA{UPPER16}", UPPER16),
    (f"ghp_{R36}", R36),
    (f"gho_{R36}", R36),
    (f"ghs_{R36}", R36),
    (f"github_pat_{R20}_{R36}", R36),
    (f"glpat-{R20}", R20),
    (f"hf_{R36}", R36),
    (f"sk-{R40}", R40),
    (f"sk-proj-{R20}_{R36}", R36),
    (f"sk-ant-api03-{R40}-AA", R40),
    (f"sk_live_{R24}", R24),
    (f"rk_live_{R24}", R24),
    (f"sk_test_{R24}", R24),
    (f"whsec_{R32}", R32),
    (f"xoxb-123456789012-{R24}", R24),
    (f"xoxp-1-2-3-{HEX32}", HEX32),
    (f"xapp-1-A0-1-{HEX40}", HEX40),
    (f"AIzaSy{R32}x", R32),
    (f"ya29.{R40}", R40),
    (f"GOCSPX-{R24}", R24),
    (f"npm_{R36}", R36),
    (f"pypi-AgEIcHlwaS5vcmc{R40}", R40),
    (f"dckr_pat_{R24}", R24),
    (f"dapi{HEX32}", HEX32),
    (f"SK{HEX32}", HEX32),
    (f"SG.{R20}xx.{R40}", R40),
    (f"123456789:AA{R36}", R36),
    (f"MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{R32}", R32),
    (f"hvs.{R40}", R40),
    (f"hvb.{R40}", R40),
    (f"s.{R24}", R24),
    (f"AGE-SECRET-KEY-1{R40.upper()}", R40.upper()),
    (JWT, R40),
    (f"nvapi-{R40}", R40),
    (f"gsk_{R40}", R40),
    (f"r8_{R36}", R36),
    (f"lsv2_pt_{HEX32}_0123456789", HEX32),
    (f"tskey-auth-{R16}-{R32}", R32),
    (f"shpat_{HEX32}", HEX32),
    (f"dop_v1_{HEX40}", HEX40),
    (f"sntrys_{R40}", R40),
    (f"glsa_{R32}_0a1b2c3d", R32),
    (f"ATATT3{R40}", R40),
    (f"newvendor_{R32}", R32),
    (f"acme-prod-{R32}", R32),
    (PEM, "kqhkiG9w0BAQ"),
    (PEM_RSA, "kqhkiG9w0BAQ"),
    (PEM.replace("\n", "\\n"), "kqhkiG9w0BAQ"),
    (PEM.replace("\n", "\\n") + " after", "kqhkiG9w0BAQ"),
    (PEM.partition("\n-----END")[0], "kqhkiG9w0BAQ"),
    (PEM.replace("PRIVATE", "OPENSSH PRIVATE"), "kqhkiG9w0BAQ"),
    (PEM.replace("PRIVATE", "ENCRYPTED PRIVATE"), "kqhkiG9w0BAQ"),
    (
        "-----BEGIN PGP PRIVATE KEY " + "BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----",
        "lQOYBF",
    ),
    (f"key {BASE64_88}", BASE64_88[:40]),
    (f"hf_{R16}…", R16),
]
# Written without a look at the rules: of 145 like these, 21 leaked at first.
CLUSTERS = [
    (f"NGC_CLI_API_KEY={X}", X),
    (f"MLFLOW_TRACKING_PASSWORD={X}", X),
    (f"LDAP_BIND_PW={X}", X),
    (f"RAY_AUTH_TOKEN={X}", X),
    (f'DOCKER_AUTH_CONFIG={{"auths":{{"r":{{"auth":"{BASIC}"}}}}}}', BASIC),
    (f"AIRFLOW__CORE__FERNET_KEY={X}", X),
    (f"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=postgresql://a:{X}@h/d", X),
    (f"PIP_INDEX_URL=https://u:{X}@h/simple", X),
    (f"http_proxy=http://u:{X}@proxy:3128", X),
    (f"OPENAI_KEY={X}", X),
    (f"wandb_key={X}", X),
    (f"openai-key: {X}", X),
    (f"SecretStr('{X}')", X),
    (f"Password(b'{X}')", X),
    (f"HTTPBasicAuth('bob', '{X}')", X),
    (f"aiohttp.BasicAuth('bob', '{X}')", X),
    (f"Namespace(lr=0.1, wandb_key='{X}', seed=1)", X),
    (f"Redis<ConnectionPool<Connection<host=h,port=1,password={X},db=0>>>", X),
    (f"[I ServerApp] http://localhost:8888/lab?token={HEX40}", HEX40),
    (f"fatal: Authentication failed for 'https://bob:{X}@h/r.git/'", X),
    (f"send: b'GET / HTTP/1.1\\r\\nX-Api-Key: {X}\\r\\n\\r\\n'", X),
    (f'level=info msg="login ok" secret="{X}"', X),
    (f"password for bob: {X}", X),
    (f"password for user bob: {X}", X),
    (f"access token is '{X}'", X),
    (f"{{'msg': 'auth', 'tok': '{R32}'}}", R32),
    (f"kubeadm join h:6443 --token {R16}.{R16}", R16),
    (f"wandb login {HEX40}", HEX40),
    (f"curl --proxy-user bob:{X} https://h", X),
    (f"ipmitool -H h -U a -P {X} power status", X),
    (f"snmpwalk -v 3 -u a -A {X} h", X),
]
# Of one line each, and the same wherever they stand in it.
MIXED = "hunT3r2x9"
PROSE = [
    (f"connecting to db as svc with password {X}", X),
    (f"passphrase {X} accepted", X),
    (f"using token {MIXED} for the registry", MIXED),
    (f"your token is: {MIXED}", MIXED),
    (f"the password is: {X}", X),
    (f"the token is {HEX40}", HEX40),
    (f"ValueError: invalid token '{MIXED}'", MIXED),
    (f'401: api_key "{MIXED}" is not valid', MIXED),
    (f"$ ngrok config add-authtoken {MIXED}", MIXED),
    (f"401 Unauthorized: api_key {MIXED} is not valid", MIXED),
    (f"secret {MIXED} rotated", MIXED),
    (f"client_secret\t{MIXED}", MIXED),
    (f"rclone config create s3 s3 secret_access_key {MIXED}", MIXED),
    (f"wandb login {MIXED}", MIXED),
    (f"wandb.login(key='{X}')", X),
    (f'huggingface_hub.login("{MIXED}")', MIXED),
    (f"SET PASSWORD FOR 'svc'@'%' = PASSWORD('{X}')", X),
    (f"echo {X} | sudo -S id", X),
    (f"echo '{X}' | docker login -u svc --password-stdin", X),
    (f"printf '%s' {X} | huggingface-cli login --token-stdin", X),
    (f"echo 'svc:{X}' | chpasswd", X),
    (f"set PGPASSWORD to '{X}'", X),
    (f"credential helper returned {R32}", R32),
    (f"+ mc alias set s http://h a {X}", X),
    (f"smbmap -u bob -p {X} -H h", X),
    (f"[['user', 'bob'], ['api_key', '{X}']]", X),
    (f"Fernet(b'{R40}abc=')", R40),
    (f"[Credential(id=1, value='{X}')]", X),
    (f"Cookie(name='sid', value='{R32}')", R32),
    (f"https://h/callback?code={R32}&state=a", R32),
    (f"https://api.telegram.org/bot123456789:{R32}/send", R32),
    (f"psk={X}", X),
    (f".dockerconfigjson: {R40}", R40),
]
LINES = [
    pair
    for family in (
        *(NAMES_AND_VALUES, JSON, PYTHON, HEADERS, ADDRESSES, CONNECTION_STRINGS, SHELL, FORMS),
        *(CLUSTERS, PROSE),
    )
    for pair in family
    if "\n" not in pair[0] and "…" not in pair[0]
]
SHAPES = [
    pair
    for family in (
        *(NAMES_AND_VALUES, JSON, PYTHON, YAML, INI, HEADERS, ADDRESSES, CONNECTION_STRINGS),
        *(SHELL, FORMS, CLUSTERS, PROSE),
    )
    for pair in family
]

COMMANDS = [
    (["python", "x.py", "--api-key", X], X),
    (["python", "x.py", f"--api-key={X} y"], X),
    (["python", "x.py", f"+wandb.api_key={X}"], X),
    (["python", "x.py", "--password", f"-{X}"], X),
    (["bash", "-c", f"export X_API_KEY={X}; python x.py"], X),
    (["sh", "-lc", f"curl -u bob:{X} https://h"], X),
    (["env", f"HF_TOKEN={X}", "python"], X),
    (["curl", "-H", f"Authorization: Bearer {X}"], X),
    (["curl", "-H", f"Cookie: a=b; sid={X}"], X),
    (["curl", "-u", f"bob:{X}", "https://h"], X),
    (["curl", "-ubob:" + X, "https://h"], X),
    (["curl", "-sSu", f"bob:{X}", "https://h"], X),
    (["curl", "-b", f"session={X}; theme=x", "h"], X),
    (["curl", "--cookie", f"session={X}", "h"], X),
    (["ngrok", "authtoken", R40], R40),
    (["ldapd", f"bindpw={X}"], X),
    (["/usr/bin/mysql", "-uroot", f"-p{X}"], X),
    (["sudo", "sshpass", "-p", X, "ssh", "h"], X),
    (["docker", "login", "-u", "bob", "-p", X], X),
    (["aws", "configure", "set", "aws_secret_access_key", X], X),
    (["redis-cli", "-a", X], X),
    (["python", "-c", f"connect(password='{X}')"], X),
    (["python", "-c", f"token = '{X}'; print(1)"], X),
    (["python", "x.py", f'{{"token": "{X}"}}'], X),
    (["python", "x.py", f"--db=postgres://u:{X}@h/x"], X),
    (["python", "x.py", f"hf_{R36}"], R36),
    (["x", "--header", f"X-Api-Key: {X}"], X),
    (["ray", "start", f"--redis-password={X}"], X),
    (["x", f"--set-string=auth.token={X}"], X),
    (["java", f"-Ddb.password={X}"], X),
    (["ssh", "node-1", f"HF_TOKEN={X} python train.py"], X),
    (["python", "t.py", f"--wandb-key={X}"], X),
    (["wandb", "login", HEX40], HEX40),
    (["curl", "--proxy-user", f"bob:{X}", "h"], X),
    (["ipmitool", "-U", "a", "-P", X], X),
    (["snmpwalk", "-A", X, "h"], X),
    (["rclone", "copy", f":s3,access_key_id=a,secret_access_key={X}:b", "x"], X),
    (["jupyter", "lab", f"--IdentityProvider.token={X}"], X),
    (["lftp", "-u", f"bob,{X}", "h"], X),
    (["mc", "--insecure", "alias", "set", "m", "http://h", "bob", X], X),
    (["mc", "config", "host", "add", "m", "https://h", "bob", X], X),
    (["mc", "admin", "user", "add", "m", "bob", X], X),
    (["rclone", "obscure", X], X),
    (["rclone", "config", "create", "r", "webdav", "url", "https://h", "pass", X], X),
    (["mysqladmin", "-u", "root", "password", X], X),
    (["wandb", "login", "--relogin", HEX40], HEX40),
    (["vault", "write", "auth/approle/login", "role_id=r", f"secret_id={X}"], X),
    (["vault", "operator", "unseal", R40], R40),
    (["openssl", "enc", "-d", "-K", HEX32, "-iv", "0"], HEX32),
    (["openssl", "passwd", "-6", X], X),
    (["smbclient", "//h/share", X, "-U", "bob"], X),
    (["ldapsearch", "-x", f"-w{X}"], X),
    (["nmcli", "dev", "wifi", "connect", "home", "password", X], X),
    (["nmcli", "con", "modify", "home", "wifi-sec.psk", X], X),
    (["htpasswd", "-bc", "file", "bob", X], X),
    (["sqlplus", "-s", f"bob/{X}@db"], X),
    (["snmpwalk", "-v2c", "-c", X, "h"], X),
    (["redis-cli", "-h", "h", "AUTH", X], X),
    (["curl", "-E", f"cert.pem:{X}", "https://h"], X),
    (["pulumi", "config", "set", "--secret", "db", X], X),
    (["cqlsh", "-u", "bob", "-p", X], X),
    (["ngc", "config", "set", "apikey", R40], R40),
    (["ldapsearch", "-D", "cn=a", "-xw", X], X),
    (["aws", "ssm", "put-parameter", "--type", "SecureString", "--value", X], X),
    (["java", f"-Durl=jdbc:oracle:thin:bob/{X}@h:1521/x"], X),
]

ORDINARY = f"""
password authentication failed for user "svc"
using password file /etc/x
password required for user svc
password hashing took 3s
passphrase prompt skipped
using token from environment
Using token bucket rate limiter v3
token embedding layer0 initialised
token dispatcher alltoall8 chosen
token routing step12 done
token id 32000 unused
the token is '</s>'
special token 'im_end2' added
secret sharing protocol v2 enabled
secret data2vec features
api key is not set
key prefix2 in store
echo hello | sudo tee /etc/x
echo rank0 | tee -a stdin.log
login(user)
login('bob')
SELECT password FROM users
--token-budget 4096
token_budget=4096
key = 'layers.0.weight'
for key in state_dict: key='lm_head.weight'
key: 'loss'
num_tokens=4096 tokens/s=1234
pad_token='<pad>'
eos_token_id=2
tokenizer=GPT2Tokenizer
--max-tokens 128
secret_sharing=False
password_file=/run/secrets/db
--key-padding-mask
attention key (8, 128, 64)
q, key, value = x.chunk(3)
key shape torch.Size([8, 128])
author=bob
authority=h
compass=north
bypass=1
pass 3 of 10
test_pass=True
token 128 of 4096
token: 128
next token is 'the'
cache_key=abc
key_dim=64
monkey=banana
keyword='loss'
keys=['a', 'b']
PASS: test_x
passed in 3.1s
step 3 token_loss=0.1
tokens_per_second=88.1
KeyError: 'token'
missing key: model.embed.weight
unexpected key(s) in state_dict: lm_head.weight
--public-key /x/id.pub
auth_mode=disabled
api_key=None
HF_TOKEN is not set
token file not found
session_dir=/tmp/ray/session_latest
session=3
session_latest
cookie_jar=None
sig=SIGTERM
signature: (x, y)
credential helper not found
use_auth=True
partition_key=3
sort_key='time'
grouping key: rank
key_value_heads=8
num_key_value_heads: 8
rope key scale 1.0
prng_key=Array([0, 42])
random key: [0 42]
rng_key=(1,2)
NCCL key exchange done
store key 'worker/0/ready' not set
waiting for key /rdzv/0
lease key etcd/x
hash=9f86d081884c7d65
commit 8f14e45fceea167a5a36dedd4bea2543c9f0f895
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
GPU-123e4567-e89b-12d3-a456-426614174000
--pass-through
token_type_ids=tensor
special_tokens_map.json
bos_token: '<s>'
unk_token=<unk>
password must be changed
no password supplied
Permission denied (publickey,password)
key_cache=tensor
value_cache
pwd=/home/bob
PWD=/home/bob/src
OLDPWD=/root
--pwd /work
cd $PWD
sk-learn==1.2
hf_hub_download
AKIA is a prefix
keyring=disabled
--keys 3
key=3
key=(0, 1)
Key: 5
api: v1
pat=*.py
glob pat: *.log
password for bob: required
password for user bob: denied
token for step: 3
token for layer: attention
SecretNotFoundError('no such object')
HTTPBasicAuth(user, password)
HTTPBasicAuth(self.user, self.password)
SecretStr(value)
SecretStr('**********')
get_secret('db-name')
store.get_password("db", "bob")
PasswordField('Password')
AddedToken('<image>')
Token('the')
Credentials(config)
tok: abc
tok='the'
tok/s: 88.1
tok_s=88.1
tokens/s 12.1k tok/s/gpu 1.2k
wandb login
wandb login --relogin
wandb: run wandb login to continue
vault login -method=oidc
access token is 'invalid'
next token is 'the'
s3_key=models/llama/step_1000.pt
--s3-key models/x.pt
google_key_column=id
BasicAuth is required
SecretBox(host='h', port=5432)
curl --proxy-user bob https://h
snmpwalk -v 2c h
MAX_TOKENS=4096
the token is: expired
the next token is: world
unexpected token 'else' in line 3
the special token "<unk>" is id 0
missing key 'layers.0.attention.w1'
the password is: too short
num_tokens: 128
max_new_tokens=100
tokens_per_second=1234.5
throughput: 1234 tokens/s
tokens: 1234567
total tokens = 8192
tokenizer='meta-llama/Llama-3-8B'
tokenizer=PreTrainedTokenizerFast(name_or_path='gpt2', vocab_size=50257)
TOKENIZERS_PARALLELISM=false
PAD_TOKEN_ID=0
pad_token_id: 151643
eos_token='</s>'
eos_token: <|endoftext|>
bos_token="<s>"
unk_token=[UNK]
mask_token='[MASK]'
pad_token='!'
special_tokens_map: {{'eos_token': '</s>', 'pad_token': '<pad>'}}
additional_special_tokens=['<|im_start|>', '<|im_end|>']
next_token=tensor([42])
next_token: 17
token=42
token_type_ids=tensor([[0, 0, 1]])
cls_token: Parameter 1×1×768 float32
time_to_first_token=0.231
time per output token: 12.5 ms
loss_per_token=0.31
token embedding: 4096
image_token_index=32000
tokens=[1, 2, 3]
invalid token '<' in line 3
Unexpected token ]] in JSON at position 4
JSONDecodeError: Unexpected token 'a'
SyntaxError: invalid token
InvalidTokenError: Signature has expired
token is invalid
Token is expired
the token is not set
HF_TOKEN=
token=None
use_auth_token=True
password=None
password: required
key=value
key: loss/train
cache_key=model-7b-fp8
cache_key='abc123'
primary_key=id
foreign_key: user_id
sort_key=lambda row: row[1]
sorted(items, key=lambda pair: pair[1])
sorted(items, key=len)
key='layers.0.attn.q_proj.weight'
missing_keys=['layers.0.attn.q_proj.weight']
unexpected_keys: ['lm_head.bias']
Missing key(s) in state_dict: "layers.0.attn.q_proj.weight"
layers.0.attn.k_proj.weight: torch.Size([4096, 4096])
key_states = key_states.transpose(1, 2)
query_key_value.weight
num_key_value_heads=8
past_key_values=DynamicCache()
use_cache=True, key_padding_mask=None
--key-frames 3
--key-frames=3
KEY_FRAMES=3
hotkey: ctrl-c
keyboard: us
KeyError: 'layer.3'
KeyError: 'hf_token'
KeyboardInterrupt
monkey=3
public_key=ssh-ed25519
metric key accuracy not found
dict_keys(['a', 'b'])
registry key: llama
git commit {HEX40}
commit={HEX40}
sha256:{HEX40}{HEX40[:24]}
sha256 {HEX40}{HEX40[:24]} model.safetensors
docker image repo/train:v1@sha256:{HEX40}{HEX40[:24]}
etag="{HEX32}"
md5={HEX32}
uuid=123e4567-e89b-12d3-a456-426614174000
run id 3k2j9x1q
NCCL unique id 0x7f3a2b1c9d8e7f60
ncclUniqueId: 0x{HEX40}
commId 0x{HEX32} rank 3 nranks 8
NCCL_DEBUG=INFO
NCCL_SOCKET_IFNAME=eth0
pass@1: 0.65
pass@10=0.81
passed=10
passed: 10, failed: 0
12 passed in 3.41s
pass 1/10
forward pass: 12 ms
backward_pass=0.31
pass=2
bypass=True
bypass: enabled
compass: north
passes=3
PASS: test_attention
passing through
author=Alice
author: Bob Smith
GIT_AUTHOR_NAME=Alice
authority: example.com
authored by Alice
authors: A, B
XAUTHORITY=/home/a/.Xauthority
SSH_AUTH_SOCK=/tmp/ssh-x/agent.1
PWD=/home/a/project
OLDPWD=/home/a
pwd: /home/a
auth=None
auth_method=sasl
auth_type: basic
authentication failed for user bob
Authentication required
Basic usage: rankdbg ps
Basic block 3 of 7
basic training loop
basic_auth=False
Bearer of bad news
bearer of the token
Bearer token authentication is enabled
secret santa
/run/secrets/db: No such file or directory
/var/run/secrets/kubernetes.io/serviceaccount/token
open /etc/secret/token.json: permission denied
File "/x/auth.py", line 3, in get_token
File "/app/token.py", line 12, in load_secret
    token = os.environ["HF_TOKEN"]
    token = get_token()
    client = Client(api_key=api_key)
    password=self.password,
    headers = {{"Authorization": f"Bearer {{token}}"}}
    def login(token: str, password: Optional[str] = None) -> None:
secretName: db-credentials
secret "db-credentials" not found
SecretNotFoundError: no such object in namespace train
CredentialsError: none found
--token-file /run/secrets/token
--token TOKEN
usage: train.py [--token TOKEN] [--api-key API_KEY]
error: argument --token: expected one argument
the option --token is required
export HF_TOKEN=$HF_TOKEN
--api-key ${{API_KEY}}
PASSWORD=$(cat /run/secrets/password)
password=***
docker login --password-stdin
http://host:8080/a@b
https://example.com/docs/webhooks/about
https://docs.github.com/en/webhooks/using-webhooks
https://docs.example.com/webhooks/v2/overview
https://pre-commit.com/hooks.html
https://me@host/x
ssh://git@github.com/org/repo.git
git@github.com:org/repo.git
git+ssh://git@github.com/org/repo
user@host
scp a.tar bob@node-1:/scratch
bob@example.com
mail to bob.smith+test@example.com
tcp://10.0.0.1:29500
tcp://[::1]:29500
http://127.0.0.1:8265/#/jobs
s3://bucket/checkpoints/step_1000/
gs://bucket/path/model-00001-of-00004.safetensors
hdfs://namenode:8020/user/a
https://huggingface.co/meta-llama/Llama-3-8B/resolve/main/config.json
https://h/x?page=2&author=me
wandb: View run at https://wandb.ai/acme/train/runs/3k2j9x1q
tensor([0.1234, -0.5678], device='cuda:0')
Tensor 4096×4096 bfloat16 cuda:0
torch.Size([8, 4096])
ssh -i ~/.ssh/id_rsa bob@node-1
ssh -p 2222 node-1
docker run -p 8080:80 image
mkdir -p /scratch/out
CUDA_VISIBLE_DEVICES=0,1,2,3
MASTER_ADDR=10.0.0.1 MASTER_PORT=29500
SLURM_JOB_ID=4711
[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered
[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1024)
step: 100 loss: 2.3456 grad_norm: 0.78 lr: 1e-4 tokens/s: 12,345 mfu: 41.2%
iteration 100/ 1000 | consumed samples: 12800 | elapsed time per iteration (ms): 512.3
_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_
void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)
triton_poi_fused__to_copy_add_mul_silu_0
sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1
/tmp/torchinductor_root/zx/czx3k2j9x1q7v5m4n8b6c1z2l3k4j5h6g7f8d9s0a1.py
/root/.triton/cache/ABCDEFGHIJKLMNOP234567QRSTUVWXYZ/kernel.cubin
ObjectRef({HEX40}0100000001000000)
ActorID({HEX32})
ray::Worker.train() (pid=123, ip=10.0.0.1, actor_id={HEX32})
session_2025-01-01_12-00-00_123456_1
DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus
session: 3
model=Qwen2.5-72B-Instruct
Qwen/Qwen3-235B-A22B-Instruct-2507-FP8
pod train-7f9c6b5d4-x2k9q-worker-0
signature: (self, x: Tensor) -> Tensor
sig=11
signal 9 (SIGKILL)
pattern=*.json
pat='^layer'
path=/models/llama
PATH=/usr/bin:/bin
skip-first-10-batches
sk-learn and task-1 stay
task_id=sk-12
hf_hub_download(repo_id='a/b', filename='c')
/models/hf_hub/tokenizer.json
/root/.cache/huggingface/token
credential helper: store
wandb: Appending key for api.wandb.ai to your netrc file: /root/.netrc
wandb: WARNING No API key found
Token indices sequence length is longer than the specified maximum
grant_type=password
[INFO] auth: ok
Decode batch, #token: .., token usage: ..
tokens (in): 12, tokens (out): 34
\x1b[36mloss\x1b[0m=\x1b[35m2.31\x1b[0m
cookiecutter template
jwt library missing
webhook sent
oauth flow started
port: 8080
user: root
name: train
value: 3
version: 12.4
12:34:56.789 node-1:123:456 [0] NCCL INFO Channel 00/02 : 0 1
node-1:4711:4720 [0] NCCL INFO cudaDriverVersion 12040
2025-01-01T12:00:00.000000Z INFO train.py:88 step 100
10.0.0.1:29500:store
Traceback (most recent call last):
tokens_per_batch: 4,194,304 | seq_len: 8192
"usage": {{"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}}
prefix cache hit rate: GPU: 12.3%, CPU: 0.0%
gpu_memory_utilization=0.9, kv_cache_dtype='auto', enforce_eager=False
EngineArgs(model='m', tokenizer=None, tokenizer_mode='auto', skip_tokenizer_init=False)
Loading checkpoint shards: 100%|##########| 4/4 [00:03<00:00, 1.2it/s]
Accessing key 'model' of the checkpoint
key 3 of 10
token = found[2]
secrets: dict[str, str] | None = None
[['token', 'text'], ['label', 'key']]
KeyError: ('auth', 'user')
from token to rank3
the mc alias set needs four arguments
wandb login first
docker run -u root -p 8080:80 image
sudo -u bob mkdir -p out
aws ssm put-parameter --type String --value fast
https://h/x?code=200&ticket=42
token cache stored in ncclDevKernel_AllReduce_Sum_f32_RING_LL
auth
x: y
""".strip("\n").split("\n")
ORDINARY_COMMANDS = [
    ["python", "x.py", "--max-tokens", "100", "--key-frames", "3"],
    ["python", "x.py", "--token", "--verbose"],
    ["python", "x.py", "--tokenizer", "/models/llama"],
    ["python", "x.py", "model.pad_token_id=0", "data.sort_key=length"],
    ["mkdir", "-p", "/scratch/out"],
    ["curl", "-b", "cookies.txt", "-sSfu", "bob", "https://h"],
    ["http", "-b", "h", "name=Alice"],
    ["docker", "run", "-p", "8080:80", "image"],
    ["docker", "login", "--password-stdin", "ghcr.io"],
    ["ssh", "-i", "/home/a/.ssh/id_rsa", "bob@node-1"],
    ["python", "-c", "import os; print(os.environ['HOME'])"],
    ["python", "-m", "torch.distributed.run", "--nproc-per-node=8", "train.py"],
    ["sqlplus", "/", "as", "sysdba"],
    ["sqlplus", "@script/x.sql"],
    ["smbclient", "//h/share", "-c", "ls"],
    ["htpasswd", "-c", "file", "bob"],
    ["wandb", "login", "--relogin"],
    ["mc", "cp", "a", "store/b", "c"],
    ["openssl", "x509", "-in", "a.pem"],
    ["nmcli", "dev", "wifi", "connect", "home"],
    ["docker", "run", "-u", "root", "-p", "8080:80", "image"],
    ["python", "-u", "train.py", "-p", "fast"],
    ["psql", "-U", "bob", "-p", "5432"],
]
