"""What the nemesis can do, one function a fault; each says whether it struck."""
