"""What the command ``edgewise`` does. The library never imports this package."""
